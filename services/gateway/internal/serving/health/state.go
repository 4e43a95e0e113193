package health

import "time"

// Phase of a circuit.
type Phase int8

// The phases. Closed lets every call through, Open none, HalfOpen one at a time.
const (
	Closed Phase = iota
	HalfOpen
	Open
)

// String is the phase's name in logs and answers.
func (p Phase) String() string {
	switch p {
	case HalfOpen:
		return "half_open"
	case Open:
		return "open"
	case Closed:
	}
	return "closed"
}

// Policy is when a circuit opens, and for how long.
type Policy struct {
	// FailureShare (0 to 1) of at least Sample calls within Window opens it.
	FailureShare float64
	Sample       uint
	Window       time.Duration
	// Delay until the first probe, twice as long after each probe that fails,
	// MaxDelay at most; a fifth more or less.
	Delay, MaxDelay time.Duration
	// ProbeTime is when a probe that says nothing is given up and another may go.
	ProbeTime time.Duration
	// LeaseWait is how long a replica waits that was refused the probe's lease.
	LeaseWait time.Duration
}

// DefaultPolicy is the service's.
func DefaultPolicy() Policy {
	return Policy{
		FailureShare: 0.5, Sample: 5, Window: 30 * time.Second,
		Delay: 5 * time.Second, MaxDelay: time.Minute, ProbeTime: 15 * time.Second, LeaseWait: time.Second,
	}
}

// State of a circuit: what its owner decides by. The zero State is closed.
type State struct {
	Phase Phase
	// Since is when the phase began.
	Since time.Time
	// Until is when an open circuit may be probed, and when the probe of a
	// half-open one is given up.
	Until time.Time
	// Streak counts the probes that failed in a row; those that one organization made
	// in a row count once.
	Streak int
	// Prober is the organization whose probe was the last, by number, and 0 for none.
	// Until ProberUntil it makes no other, so that another organization may, and
	// Repeats are those of its probes in a row that failed.
	Prober      uint64
	ProberUntil time.Time
	Repeats     int
	// Own tells that this replica saw the failures itself. Only then does it
	// report the circuit as open: those who follow must not keep each other open.
	Own bool
	// Recovered tells that another replica's probe passed since the circuit
	// opened, so that the next one here needs no lease.
	Recovered bool
	// Cause of the last change, for people.
	Cause string
}

// EventKind is what happened to a circuit.
type EventKind int8

// The events.
const (
	// Tripped: the calls of this replica failed too often.
	Tripped EventKind = iota
	// Asked: a call would like to go.
	Asked
	// Passed, Failed: what came of the probe. Voided: nothing did, such as when
	// its caller left. Denied: another replica holds the lease.
	Passed
	Failed
	Voided
	Denied
	// Viewed: what the other replicas report.
	Viewed
)

// Event is a kind with what belongs to it.
type Event struct {
	Kind EventKind
	// Cause of Tripped and Failed.
	Cause string
	// Floor is the least time to stay open: a vendor's Retry-After.
	Floor time.Duration
	// Jitter in [0, 1) spreads the probes of replicas that opened together.
	Jitter float64
	// Organization of Asked, by number; 0 for none, which is never kept waiting.
	Organization uint64

	// Of Viewed. Quorum tells that most of the live replicas report the circuit
	// as open, For how much longer they do, and Closed when one last reported
	// that its probe passed.
	Quorum bool
	For    time.Duration
	Closed time.Time
}

// Step is the state after an event: the whole decision, without a clock or a
// wire. An event that means nothing in a phase changes nothing.
func (s State) Step(e Event, p Policy, now time.Time) State {
	switch s.Phase {
	case Closed:
		return s.closed(e, p, now)
	case Open:
		return s.open(e, p, now)
	case HalfOpen:
		return s.halfOpen(e, p, now)
	}
	return s
}

func (s State) closed(e Event, p Policy, now time.Time) State {
	switch {
	case e.Kind == Tripped:
		return s.opened(e, p, now)
	case e.Kind == Viewed && e.Quorum:
		return State{Phase: Open, Since: now, Until: now.Add(e.For), Cause: "most replicas report it open"}
	}
	return s
}

func (s State) open(e Event, p Policy, now time.Time) State {
	switch e.Kind {
	case Tripped:
		if !s.Own {
			return s.opened(e, p, now)
		}
	case Asked:
		switch {
		case now.Before(s.probeAfter(e.Organization)):
		case s.Own:
			return s.probed(e, p, now)
		default:
			return State{Since: now, Cause: "the other replicas' reports ran out"}
		}
	case Viewed:
		return s.viewed(e, now)
	case Passed, Failed, Voided, Denied: // Of a probe before the last change.
	}
	return s
}

// viewed is what an open circuit makes of the others' reports: one that follows
// goes with them, one that saw failures itself only probes sooner.
func (s State) viewed(e Event, now time.Time) State {
	switch {
	case s.Own && e.Closed.After(s.Since):
		s.Recovered = true
		if s.Until.After(now) {
			s.Until = now
		}
	case s.Own:
	case e.Quorum:
		s.Until = now.Add(e.For)
	default:
		return State{Since: now, Cause: "most replicas no longer report it open"}
	}
	return s
}

func (s State) halfOpen(e Event, p Policy, now time.Time) State {
	switch e.Kind {
	case Asked:
		if !now.Before(s.silentUntil(e.Organization, p)) {
			return s.probed(e, p, now)
		}
	case Passed:
		return State{Since: now, Own: true, Cause: "a probe passed"}
	case Failed:
		return s.failedAgain(e, p, now)
	case Voided:
		s.Phase, s.Since, s.Until = Open, now, now
		if s.Prober != 0 {
			s.ProberUntil = now.Add(p.LeaseWait)
		}
	case Denied:
		s.Phase, s.Since, s.Until = Open, now, now.Add(p.LeaseWait)
	case Tripped, Viewed:
	}
	return s
}

// probeAfter is when an organization's call may probe an open circuit.
func (s State) probeAfter(organization uint64) time.Time {
	if organization != 0 && organization == s.Prober && s.ProberUntil.After(s.Until) {
		return s.ProberUntil
	}
	return s.Until
}

// silentUntil is when an organization's call may probe beside a probe that says
// nothing: another organization's goes first.
func (s State) silentUntil(organization uint64, p Policy) time.Time {
	if organization != 0 && organization == s.Prober {
		return s.Until.Add(p.LeaseWait)
	}
	return s.Until
}

// probed is the state while an organization's call probes.
func (s State) probed(e Event, p Policy, now time.Time) State {
	if e.Organization != s.Prober {
		s.Prober, s.Repeats = e.Organization, 0
	}
	s.Phase, s.Since, s.Until, s.ProberUntil = HalfOpen, now, now.Add(p.ProbeTime), time.Time{}
	return s
}

// failedAgain is the state after a probe that failed. The time until the next one
// doubles; where one organization's probes fail in a row it does so for that one,
// and others may see for themselves.
func (s State) failedAgain(e Event, p Policy, now time.Time) State {
	if s.Prober == 0 || s.Repeats == 0 {
		s.Streak++
	}
	own := now.Add(max(p.delay(s.Streak+s.Repeats, e.Jitter), e.Floor))
	if s.Repeats > 0 {
		e.Floor = 0
	}
	next := s.opened(e, p, now)
	if s.Prober != 0 {
		next.Prober, next.ProberUntil, next.Repeats = s.Prober, own, s.Repeats+1
	}
	return next
}

// opened is the state of a circuit that this replica's own calls opened.
func (s State) opened(e Event, p Policy, now time.Time) State {
	return State{
		Phase: Open, Since: now, Until: now.Add(max(p.delay(s.Streak, e.Jitter), e.Floor)), Streak: s.Streak, Own: true, Cause: e.Cause,
	}
}

// delay until the next probe after so many that failed.
func (p Policy) delay(streak int, jitter float64) time.Duration {
	delay := p.Delay
	for range streak {
		if delay = min(2*delay, p.MaxDelay); delay == p.MaxDelay {
			break
		}
	}
	return delay + time.Duration((jitter-0.5)*0.4*float64(delay))
}
