// Package breaker decides when attempts to a destination, a scheme with host and port, pause because they fail. The
// decision is a pure function; all replicas share its state. The dispatcher asks before each attempt and reports the
// outcome.
package breaker

import (
	"context"
	"encoding/json"
	"time"

	"switchyard.dev/services/notify/internal/shared"
)

// Life is how long the state of a destination without reports is kept.
const Life = time.Hour

// fresh is the maximum age of a replica's copy of a state.
const fresh = 250 * time.Millisecond

// Policy holds when a circuit opens, and for how long.
type Policy struct {
	// Failures is how many failures in a row open the circuit.
	Failures int
	// Pause is how long a circuit stays open the first time; it doubles each further time up to MaxPause. Each pause
	// is up to a fifth longer or shorter.
	Pause, MaxPause time.Duration
}

// State is the state of a destination. The zero State is a closed circuit without failures.
type State struct {
	// Row counts failures in a row, Opened how often in a row the circuit has opened.
	Row    int `json:"row,omitempty"`
	Opened int `json:"opened,omitempty"`
	// Until is when an open circuit is probed, by one attempt that ends before ProbeEnds.
	Until     time.Time `json:"until,omitzero"`
	ProbeEnds time.Time `json:"probe_ends,omitzero"`
	// Changed is when the state last changed; it orders copies.
	Changed time.Time `json:"changed,omitzero"`
}

// Open reports whether the circuit is open, so that only probes are admitted.
func (s State) Open() bool { return !s.Until.IsZero() }

// waiting is the longest time until the next check of a destination with a probe in flight.
const waiting = time.Second

// Admit decides whether an attempt that ends within lease may begin at now. If not, wait is when to ask again.
func (p Policy) Admit(s State, now time.Time, lease time.Duration) (next State, wait time.Duration) {
	if !s.Open() {
		return s, 0
	}
	// A wait longer than any pause means that the clock was set back.
	if wait := s.Until.Sub(now); wait > 0 && wait <= 2*p.MaxPause {
		return s, wait
	}
	if wait := s.ProbeEnds.Sub(now); wait > 0 && wait <= lease {
		return s, min(wait, waiting)
	}
	s.ProbeEnds, s.Changed = now.Add(lease), now
	return s, 0
}

// After returns the state after an attempt that ended at now; random is in [0, 1).
func (p Policy) After(s State, failed bool, now time.Time, random float64) State {
	switch {
	case !failed:
		if s.Row == 0 && !s.Open() {
			return s
		}
		return State{Changed: now}
	case s.Open() && s.ProbeEnds.IsZero(): // The attempt began before the circuit opened.
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

// Breaker holds the circuit state of destinations. It is safe for concurrent use.
type Breaker struct {
	states *shared.States
	policy Policy
	now    func() time.Time
	random func() float64
}

// New returns a Breaker over states.
func New(states *shared.States, policy Policy, now func() time.Time, random func() float64) *Breaker {
	return &Breaker{states: states, policy: policy, now: now, random: random}
}

// Merge returns the newer of two copies of a state.
func Merge(a, b string) string {
	if decode(a).Changed.After(decode(b).Changed) {
		return a
	}
	return b
}

// Admit asks to begin an attempt that ends within lease. It returns zero if the attempt may begin, or else how long
// to wait before asking again.
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

// Report takes the outcome of an attempt and reports whether that opened the circuit.
func (b *Breaker) Report(ctx context.Context, destination string, failed bool) (opened bool) {
	known := decode(b.states.Look(ctx, destination, fresh))
	if !failed && known.Row == 0 && !known.Open() {
		return false // The usual case: nothing changes.
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
	text, _ := json.Marshal(s) // numbers and times always encode
	return string(text)
}

// decode parses a state; text that cannot be parsed is treated as never written.
func decode(text string) State {
	var s State
	if text == "" || json.Unmarshal([]byte(text), &s) != nil {
		return State{}
	}
	return s
}
