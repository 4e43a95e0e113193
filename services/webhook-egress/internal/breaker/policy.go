// Package breaker decides when a target, one host and port as seen by one
// organization, is left alone for a while. The decision is a pure function of
// what came of the attempts; its state is shared by all replicas through a kv.Store,
// and each keeps a copy to go on with while the store is away. The dispatcher asks
// it how many deliveries a claim may take and tells it what came of them.
package breaker

import "time"

// Phase of a target.
type Phase string

// The phases. Closed lets everything through, open nothing until its time is
// over; half-open lets through one delivery, and twice as many after each level
// that got through whole.
const (
	Closed   Phase = ""
	Open     Phase = "open"
	HalfOpen Phase = "half_open"
)

// rampTop is the last level of a ramp: one, two, four, eight at a time, then all.
const rampTop = 8

// Policy is when a target is left alone, and for how long.
type Policy struct {
	// Failures in a row open it.
	Failures int
	// So do failures of at least Share among Sample attempts or more within
	// Window, counted from the first failure.
	Share  float64
	Sample int
	Window time.Duration
	// Pause is how long it stays open the first time, twice as long each further
	// time, MaxPause at most; a fifth more or less.
	Pause, MaxPause time.Duration
}

// DefaultPolicy is that of the service, but for its settings.
func DefaultPolicy() Policy {
	return Policy{Failures: 5, Share: 0.5, Sample: 20, Window: time.Minute, Pause: 10 * time.Second, MaxPause: 10 * time.Minute}
}

// State of a target. The zero State is that of one that nothing is known of.
type State struct {
	Phase Phase `json:"phase,omitempty"`
	// Since is when the phase began: what began before tells nothing about it.
	Since time.Time `json:"since,omitzero"`
	// Changed orders copies of a state.
	Changed time.Time `json:"changed,omitzero"`

	// Of a closed target: failures in a row, and what came within the window.
	Row     int       `json:"row,omitempty"`
	Good    int       `json:"good,omitempty"`
	Bad     int       `json:"bad,omitempty"`
	Counted time.Time `json:"counted,omitzero"`

	// Opened is how often in a row it has opened.
	Opened int `json:"opened,omitempty"`
	// Until is when an open one is tried again.
	Until time.Time `json:"until,omitzero"`

	// Of a half-open one: how many may be under way, how many are, how many of
	// this level got through, and when those under way are given up.
	Level    int       `json:"level,omitempty"`
	InFlight int       `json:"in_flight,omitempty"`
	Passed   int       `json:"passed,omitempty"`
	GiveUp   time.Time `json:"give_up,omitzero"`
}

// Quiet reports whether the state says no more than none at all.
func (s State) Quiet(p Policy, now time.Time) bool {
	return s.Phase == Closed && s.Row == 0 &&
		(s.Bad == 0 || now.Sub(s.Counted) > p.Window) && (s.Opened == 0 || now.Sub(s.Since) > p.Window)
}

// Event is what came of a delivery.
type Event string

// The events. Void is a delivery that was let through and came to nothing.
const (
	Passed Event = "passed"
	Failed Event = "failed"
	Void   Event = "void"
)

// Report is an event with what belongs to it.
type Report struct {
	Event Event
	// Began is when the attempt did.
	Began time.Time
	// Admitted: it was one of those that Admit let through.
	Admitted bool
	// RetryAfter is how long the target asked to be left alone.
	RetryAfter time.Duration
}

// After is the state after a report that came at now; random is in [0, 1).
func (p Policy) After(s State, r Report, now time.Time, random float64) State {
	s = s.on(now)
	if r.Event != Void && r.Began.Before(s.Since) {
		return s
	}
	next := s
	switch {
	case s.Phase == Closed && r.Event == Passed:
		next = p.passed(s, now)
	case s.Phase == Closed && r.Event == Failed:
		next = p.failed(s, r, now, random)
	case s.Phase == HalfOpen && r.Event == Failed:
		next = p.open(s, r, now, random)
	case s.Phase == HalfOpen && r.Admitted:
		next = p.climb(s, r, now)
	}
	if next != s {
		next.Changed = now
	}
	return next
}

// on undoes what a clock that was set back would do: a phase begins no later than
// now.
func (s State) on(now time.Time) State {
	if s.Since.After(now) {
		s.Since = now
	}
	return s
}

func (p Policy) passed(s State, now time.Time) State {
	s = p.window(s, now)
	s.Row = 0
	if s.Bad > 0 {
		s.Good++
	}
	return s
}

func (p Policy) failed(s State, r Report, now time.Time, random float64) State {
	s = p.window(s, now)
	if s.Bad == 0 {
		s.Counted = now
	}
	s.Row++
	s.Bad++
	total := s.Good + s.Bad
	if s.Row >= p.Failures || total >= p.Sample && float64(s.Bad) >= p.Share*float64(total) {
		return p.open(s, r, now, random)
	}
	return s
}

// window forgets what is too old to be counted.
func (p Policy) window(s State, now time.Time) State {
	if s.Bad > 0 && now.Sub(s.Counted) > p.Window {
		s.Good, s.Bad, s.Counted = 0, 0, time.Time{}
	}
	return s
}

// open leaves the target alone. One that was closed for long begins anew, one
// that flaps goes on where it was.
func (p Policy) open(s State, r Report, now time.Time, random float64) State {
	opened := s.Opened + 1
	if s.Phase == Closed && now.Sub(s.Since) > p.Window {
		opened = 1
	}
	pause := p.Pause
	for i := 1; i < opened && pause < p.MaxPause; i++ {
		pause *= 2
	}
	pause = min(pause, p.MaxPause)
	pause += time.Duration(float64(pause) * (0.4*random - 0.2))
	pause = max(pause, min(r.RetryAfter, p.MaxPause))
	return State{Phase: Open, Since: now, Opened: opened, Until: now.Add(pause)}
}

// longest is what a pause may be with its share of chance.
func (p Policy) longest() time.Duration { return p.MaxPause + p.MaxPause/5 }

// climb counts a delivery of a half-open target that did not fail.
func (p Policy) climb(s State, r Report, now time.Time) State {
	s.InFlight = max(0, s.InFlight-1)
	if r.Event == Void {
		return s
	}
	s.Passed++
	switch {
	case s.Passed < s.Level:
		return s
	case s.Level >= rampTop:
		return State{Since: now, Opened: s.Opened}
	}
	s.Level, s.Passed = 2*s.Level, 0
	return s
}

// waiting is the longest time until a half-open target is looked at again.
const waiting = 2 * time.Second

// Admit decides how many of the wanted deliveries may begin at now, each of
// which ends within lease or is given up. With none, wait is when to ask again.
func (p Policy) Admit(s State, want int, lease time.Duration, now time.Time) (next State, allowed int, wait time.Duration) {
	s = s.on(now)
	switch s.Phase {
	case Closed:
		return s, want, 0
	case Open:
		// A wait that is longer than any is that of a clock that was set back.
		if wait := s.Until.Sub(now); wait > 0 && wait <= p.longest() {
			return s, 0, wait
		}
		s = State{Phase: HalfOpen, Since: now, Opened: s.Opened, Level: 1}
	case HalfOpen:
		if left := s.GiveUp.Sub(now); left <= 0 || left > lease {
			s.InFlight = 0
		}
	}
	allowed = min(want, s.Level-s.InFlight)
	if allowed <= 0 {
		return s, 0, max(0, min(waiting, s.GiveUp.Sub(now)))
	}
	s.InFlight += allowed
	s.GiveUp, s.Changed = now.Add(lease), now
	return s, allowed, 0
}
