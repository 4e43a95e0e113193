package breaker

import (
	"time"

	"switchyard.dev/services/platform/alive"
)

// Phase is the phase of a circuit.
type Phase string

// The phases. Closed admits everything, open nothing until its pause has passed. Half-open admits one delivery, and
// twice as many after each level that passed without a failure.
const (
	Closed   Phase = ""
	Open     Phase = "open"
	HalfOpen Phase = "half_open"
)

// rampTop is the last level of the ramp: one, two, four, eight at a time, then all.
const rampTop = 8

// Policy holds when a circuit opens, and for how long.
type Policy struct {
	// Failures is how many failures in a row open the circuit. A host's circuit opens only if also no other flow got an
	// answer there within Window.
	Failures int
	// A Share of failures among Sample or more attempts within Window opens a flow's circuit, too. The window begins with
	// the first failure.
	Share  float64
	Sample int
	Window time.Duration
	// Pause is how long a circuit stays open the first time; it doubles each further time up to MaxPause. Each pause
	// is up to a fifth longer or shorter.
	Pause, MaxPause time.Duration
}

// DefaultPolicy returns the service's defaults; settings override some of them.
func DefaultPolicy() Policy {
	return Policy{Failures: 5, Share: 0.5, Sample: 20, Window: time.Minute, Pause: 10 * time.Second, MaxPause: 10 * time.Minute}
}

// State is the state of a circuit. The zero State is a closed circuit without failures.
type State struct {
	Phase Phase `json:"phase,omitempty"`
	// Since is when the phase began. Reports of attempts that began earlier are ignored.
	Since time.Time `json:"since,omitzero"`
	// Changed is when the state last changed; it orders copies.
	Changed time.Time `json:"changed,omitzero"`

	// Of a closed circuit: failures in a row, outcomes within the window, and when the window began.
	Row     int       `json:"row,omitempty"`
	Good    int       `json:"good,omitempty"`
	Bad     int       `json:"bad,omitempty"`
	Counted time.Time `json:"counted,omitzero"`

	// Opened is how often in a row the circuit has opened.
	Opened int `json:"opened,omitempty"`
	// Until is when an open circuit becomes half-open.
	Until time.Time `json:"until,omitzero"`

	// Of a half-open circuit: how many deliveries may be in flight, how many are, how many of this level passed, and
	// when those in flight are no longer waited for.
	Level    int       `json:"level,omitempty"`
	InFlight int       `json:"in_flight,omitempty"`
	Passed   int       `json:"passed,omitempty"`
	GiveUp   time.Time `json:"give_up,omitzero"`

	// Of a host's circuit: the flows whose last attempt got an answer.
	Answered alive.Flows `json:"answered,omitzero"`
}

// Quiet reports whether the state is equivalent to the zero State.
func (s State) Quiet(p Policy, now time.Time) bool {
	return s.Phase == Closed && s.Row == 0 &&
		(s.Bad == 0 || now.Sub(s.Counted) > p.Window) && (s.Opened == 0 || now.Sub(s.Since) > p.Window)
}

// Event is the outcome of a delivery.
type Event string

// The events. Void is an admitted delivery for which no request was made.
const (
	Passed Event = "passed"
	Failed Event = "failed"
	Void   Event = "void"
)

// Report is an event with its circumstances.
type Report struct {
	Event Event
	// Began is when the attempt began.
	Began time.Time
	// Admitted reports whether Admit counted the delivery.
	Admitted bool
	// RetryAfter is the pause that the target asked for.
	RetryAfter time.Duration
	// Flow identifies the attempted flow in a report to its host, or the attempted path if paths share the flow. It is
	// zero in a report to the flow itself.
	Flow uint64
}

// toHost reports whether the report is about a host's circuit.
func (r Report) toHost() bool { return r.Flow != 0 }

// After returns the state after a report at time now; random is in [0, 1).
func (p Policy) After(s State, r Report, now time.Time, random float64) State {
	s = s.on(now)
	if r.Event != Void && r.Began.Before(s.Since) {
		return s
	}
	next := s
	switch {
	case s.Phase == Closed && r.Event == Passed:
		next = p.passed(s, r, now)
	case s.Phase == Closed && r.Event == Failed:
		next = p.failed(s, r, now, random)
	case s.Phase == HalfOpen && r.Event == Failed && r.toHost() && s.Answered.Others(r.Flow, s.Since):
		next.Answered = s.Answered.Without(r.Flow) // The host is alive, so the failure counts only against the flow.
		if r.Admitted {
			next.InFlight = max(0, s.InFlight-1)
		}
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

// on corrects a state whose phase begins after now, which happens when the clock was set back.
func (s State) on(now time.Time) State {
	if s.Since.After(now) {
		s.Since = now
	}
	return s
}

func (p Policy) passed(s State, r Report, now time.Time) State {
	s = p.window(s, now)
	s.Row = 0
	if s.Bad > 0 {
		s.Good++
	}
	return s.answered(r, now)
}

// answered notes an answer to a flow in the state of a host; it leaves the state of a flow unchanged.
func (s State) answered(r Report, now time.Time) State {
	if r.toHost() {
		s.Answered = s.Answered.With(r.Flow, now)
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
	if r.toHost() {
		s.Answered = s.Answered.Without(r.Flow)
		if s.Row < p.Failures || s.Answered.Others(r.Flow, now.Add(-p.Window)) {
			return s
		}
		return p.open(s, r, now, random)
	}
	total := s.Good + s.Bad
	if s.Row >= p.Failures || total >= p.Sample && float64(s.Bad) >= p.Share*float64(total) {
		return p.open(s, r, now, random)
	}
	return s
}

// window resets the counts once the window has passed.
func (p Policy) window(s State, now time.Time) State {
	if s.Bad > 0 && now.Sub(s.Counted) > p.Window {
		s.Good, s.Bad, s.Counted = 0, 0, time.Time{}
	}
	return s
}

// open opens the circuit. After a long closed phase the pause starts from the beginning; a flapping target continues
// the doubling.
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

// longest returns the longest possible pause, including its random part.
func (p Policy) longest() time.Duration { return p.MaxPause + p.MaxPause/5 }

// climb counts a delivery of a half-open circuit that did not fail.
func (p Policy) climb(s State, r Report, now time.Time) State {
	s.InFlight = max(0, s.InFlight-1)
	if r.Event == Void {
		return s
	}
	s = s.answered(r, now)
	s.Passed++
	switch {
	case s.Passed < s.Level:
		return s
	case s.Level >= rampTop:
		return State{Since: now, Opened: s.Opened, Answered: s.Answered}
	}
	s.Level, s.Passed = 2*s.Level, 0
	return s
}

// waiting is the longest time until the next check of a half-open circuit.
const waiting = 2 * time.Second

// Admit decides how many of the wanted deliveries may begin at now. Each ends within lease or is no longer counted.
// When none may begin, wait is when to ask again.
func (p Policy) Admit(s State, want int, lease time.Duration, now time.Time) (next State, allowed int, wait time.Duration) {
	s = s.on(now)
	switch s.Phase {
	case Closed:
		return s, want, 0
	case Open:
		// A wait longer than any pause means that the clock was set back.
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
