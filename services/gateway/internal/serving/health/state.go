package health

import "time"

// Phase is a circuit's phase.
type Phase int8

// The phases. Closed lets every call through, Open none, HalfOpen one at a time.
const (
	Closed Phase = iota
	HalfOpen
	Open
)

// String returns the phase's name in logs and answers.
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

// Policy sets when a circuit opens and for how long.
type Policy struct {
	// FailureShare (0 to 1) of at least Sample calls within Window opens the circuit.
	FailureShare float64
	Sample       uint
	Window       time.Duration
	// Delay is the time until the first probe. It doubles after each failed probe up to MaxDelay, and is varied by up
	// to a fifth.
	Delay, MaxDelay time.Duration
	// ProbeTime is how long a probe may take before it is given up and another call may probe.
	ProbeTime time.Duration
	// LeaseWait is how long a replica waits that was refused the probe's lease.
	LeaseWait time.Duration
}

// DefaultPolicy returns the service's defaults.
func DefaultPolicy() Policy {
	return Policy{
		FailureShare: 0.5, Sample: 5, Window: 30 * time.Second,
		Delay: 5 * time.Second, MaxDelay: time.Minute, ProbeTime: 15 * time.Second, LeaseWait: time.Second,
	}
}

// State is what a breaker decides by. The zero State is closed.
type State struct {
	Phase Phase
	// Since is when the phase began.
	Since time.Time
	// Until is when an open circuit may be probed, or when the probe of a half-open one is given up.
	Until time.Time
	// Streak counts the failed probes in a row; those that one organization made in a row count once.
	Streak int
	// Prober is the number of the organization that made the last probe; 0 for none. Until ProberUntil it makes no
	// other probe, so that another organization may. Repeats counts its own failed probes in a row.
	Prober      uint64
	ProberUntil time.Time
	Repeats     int
	// Own reports whether this replica observed the failures itself. Only then does it report the circuit as open:
	// replicas that merely follow must not keep each other open.
	Own bool
	// Recovered reports whether another replica's probe has passed since the circuit opened. The next probe here then
	// needs no lease.
	Recovered bool
	// Cause of the last change, for people.
	Cause string
}

// EventKind is what happened to a circuit.
type EventKind int8

// The events.
const (
	// Tripped: this replica's calls failed too often.
	Tripped EventKind = iota
	// Asked: a call wants to go.
	Asked
	// Passed and Failed are outcomes of the probe. Voided: the probe has no outcome, such as when its caller left.
	// Denied: another replica holds the lease.
	Passed
	Failed
	Voided
	Denied
	// Viewed: the other replicas' reports arrived.
	Viewed
)

// Event is something that happened to a circuit. Which fields apply depends on Kind.
type Event struct {
	Kind EventKind
	// Cause of Tripped and Failed, for people.
	Cause string
	// Floor is the least time to stay open: a vendor's Retry-After.
	Floor time.Duration
	// Jitter in [0, 1) spreads the probes of replicas that opened together.
	Jitter float64
	// Organization of Asked, by number. ProberUntil never delays a call of none (0).
	Organization uint64

	// Quorum, For and Closed belong to Viewed. Quorum reports whether most of the live replicas report the circuit as
	// open, For is how much longer they do, and Closed is when one last reported that its probe passed.
	Quorum bool
	For    time.Duration
	Closed time.Time
}

// Step returns the state after an event. It is the whole decision, without a clock and without I/O. An event that does
// not apply in a phase changes nothing.
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

// viewed returns the state of an open circuit after the others' reports. A replica that only follows takes their state;
// one that observed failures itself only probes sooner.
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

// probeAfter returns when an organization's call may probe an open circuit.
func (s State) probeAfter(organization uint64) time.Time {
	if organization != 0 && organization == s.Prober && s.ProberUntil.After(s.Until) {
		return s.ProberUntil
	}
	return s.Until
}

// silentUntil returns when an organization's call may probe although an earlier probe has no outcome yet. Another
// organization's call may do so before the prober's own.
func (s State) silentUntil(organization uint64, p Policy) time.Time {
	if organization != 0 && organization == s.Prober {
		return s.Until.Add(p.LeaseWait)
	}
	return s.Until
}

// probed returns the state while an organization's call probes.
func (s State) probed(e Event, p Policy, now time.Time) State {
	if e.Organization != s.Prober {
		s.Prober, s.Repeats = e.Organization, 0
	}
	s.Phase, s.Since, s.Until, s.ProberUntil = HalfOpen, now, now.Add(p.ProbeTime), time.Time{}
	return s
}

// failedAgain returns the state after a failed probe. The time until the next one doubles. Where one organization's
// probes fail in a row it doubles for that organization only, and others may probe earlier.
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

// opened returns the state of a circuit that this replica's own calls opened.
func (s State) opened(e Event, p Policy, now time.Time) State {
	return State{
		Phase: Open, Since: now, Until: now.Add(max(p.delay(s.Streak, e.Jitter), e.Floor)), Streak: s.Streak, Own: true, Cause: e.Cause,
	}
}

// delay returns the time until the next probe after streak failed ones.
func (p Policy) delay(streak int, jitter float64) time.Duration {
	delay := p.Delay
	for range streak {
		if delay = min(2*delay, p.MaxDelay); delay == p.MaxDelay {
			break
		}
	}
	return delay + time.Duration((jitter-0.5)*0.4*float64(delay))
}
