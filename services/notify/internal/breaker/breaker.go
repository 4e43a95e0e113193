// Package breaker decides when a destination, a scheme with host and port, is
// left alone for a while because nothing gets through to it. The decision is a
// pure function; its state is shared by all replicas. The dispatcher asks it
// before each attempt and tells it what came of it.
package breaker

import (
	"context"
	"encoding/json"
	"time"

	"switchyard.dev/services/notify/internal/shared"
)

// Life is how long a destination that nothing comes from is remembered.
const Life = time.Hour

// fresh is how old what a replica knows of a destination may be.
const fresh = 250 * time.Millisecond

// Policy is when a destination is left alone, and for how long.
type Policy struct {
	// Failures in a row open it.
	Failures int
	// Pause is how long it stays open the first time, twice as long each further
	// time, MaxPause at most; a fifth more or less.
	Pause, MaxPause time.Duration
}

// State of a destination. The zero State is that of one that nothing is known of.
type State struct {
	// Row counts failures in a row, Opened how often in a row it was opened.
	Row    int `json:"row,omitempty"`
	Opened int `json:"opened,omitempty"`
	// Until is when an open one is tried again, by one attempt until ProbeEnds.
	Until     time.Time `json:"until,omitzero"`
	ProbeEnds time.Time `json:"probe_ends,omitzero"`
	// Changed orders copies of a state.
	Changed time.Time `json:"changed,omitzero"`
}

// Open reports whether it is left alone but for probes.
func (s State) Open() bool { return !s.Until.IsZero() }

// waiting is the longest time until an open destination whose probe is under way
// is looked at again.
const waiting = time.Second

// Admit decides whether an attempt that ends within lease may begin at now. If
// not, wait is when to ask again.
func (p Policy) Admit(s State, now time.Time, lease time.Duration) (next State, wait time.Duration) {
	if !s.Open() {
		return s, 0
	}
	// A wait that is longer than any is that of a clock that was set back.
	if wait := s.Until.Sub(now); wait > 0 && wait <= 2*p.MaxPause {
		return s, wait
	}
	if wait := s.ProbeEnds.Sub(now); wait > 0 && wait <= lease {
		return s, min(wait, waiting)
	}
	s.ProbeEnds, s.Changed = now.Add(lease), now
	return s, 0
}

// After is the state after an attempt that ended at now; random is in [0, 1).
func (p Policy) After(s State, failed bool, now time.Time, random float64) State {
	switch {
	case !failed:
		if s.Row == 0 && !s.Open() {
			return s
		}
		return State{Changed: now}
	case s.Open() && s.ProbeEnds.IsZero(): // Begun before it was opened.
		return s
	}
	s.Row, s.Changed = s.Row+1, now
	if s.Row >= p.Failures {
		pause := min(p.Pause<<min(s.Opened, 20), p.MaxPause)
		pause += time.Duration(float64(pause) * (0.4*random - 0.2))
		s.Opened, s.Until, s.ProbeEnds = s.Opened+1, now.Add(pause), time.Time{}
	}
	return s
}

// Breaker holds what is known of destinations. It is safe for concurrent use.
type Breaker struct {
	states *shared.States
	policy Policy
	now    func() time.Time
	random func() float64
}

// New returns a breaker over states.
func New(states *shared.States, policy Policy, now func() time.Time, random func() float64) *Breaker {
	return &Breaker{states: states, policy: policy, now: now, random: random}
}

// Merge is the copy of a destination's state that counts: the newer one.
func Merge(a, b string) string {
	if decode(a).Changed.After(decode(b).Changed) {
		return a
	}
	return b
}

// Admit asks for an attempt that ends within lease: zero for go on, else the
// wait before asking again.
func (b *Breaker) Admit(ctx context.Context, destination string, lease time.Duration) (wait time.Duration) {
	if !decode(b.states.Look(ctx, destination, fresh)).Open() {
		return 0
	}
	b.states.Change(ctx, destination, func(old string) string {
		var next State
		next, wait = b.policy.Admit(decode(old), b.now(), lease)
		return encode(next)
	})
	return wait
}

// Report tells what came of an attempt, and gives whether that opened the
// destination.
func (b *Breaker) Report(ctx context.Context, destination string, failed bool) (opened bool) {
	known := decode(b.states.Look(ctx, destination, fresh))
	if !failed && known.Row == 0 && !known.Open() {
		return false // as nearly always: there is nothing to change
	}
	b.states.Change(ctx, destination, func(old string) string {
		before := decode(old)
		after := b.policy.After(before, failed, b.now(), b.random())
		opened = after.Opened > before.Opened
		return encode(after)
	})
	return opened
}

func encode(s State) string {
	if s == (State{}) {
		return ""
	}
	text, _ := json.Marshal(s) // of numbers and times: never fails
	return string(text)
}

// decode reads a text; one that can't be read counts as never written.
func decode(text string) State {
	var s State
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return State{}
	}
	return s
}
