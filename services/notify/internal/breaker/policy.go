package breaker

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	"switchyard.dev/services/platform/alive"
)

// window is how long a lane counts as answered. While another lane of the host does, a lane's failures don't open the
// host's circuit.
const window = time.Minute

// Policy holds when a circuit opens, and for how long.
type Policy struct {
	// Failures is how many failures in a row open the circuit.
	Failures int
	// Pause is how long a circuit stays open the first time; it doubles each further time up to MaxPause. Each pause
	// is up to a fifth longer or shorter.
	Pause, MaxPause time.Duration
}

// State is a circuit's state. The zero State is a closed circuit without failures.
type State struct {
	// Row counts failures in a row, Opened how often in a row the circuit has opened.
	Row    int `json:"row,omitempty"`
	Opened int `json:"opened,omitempty"`
	// Until is when an open circuit is probed, by one attempt that ends before ProbeEnds.
	Until     time.Time `json:"until,omitzero"`
	ProbeEnds time.Time `json:"probe_ends,omitzero"`
	// Changed is when the state last changed; it orders copies.
	Changed time.Time `json:"changed,omitzero"`

	// Only a host's circuit has the following. Answered holds the lanes whose last attempt was answered, Probed the
	// lanes whose probes failed, the latest first. LanesUntil is until when lanes of the host may have failures.
	Answered   alive.Flows `json:"answered,omitzero"`
	Probed     probed      `json:"probed,omitzero"`
	LanesUntil time.Time   `json:"lanes_until,omitzero"`
}

// probed lists numbers of lanes; zero marks an unused place.
type probed [8]uint64

// turn returns a lane's place in the order of probes: 0 for lanes whose probes haven't failed, 1 for the lane whose
// probe failed longest ago, and so on.
func (p probed) turn(lane uint64) int {
	known := slices.Index(p[:], 0)
	if known < 0 {
		known = len(p)
	}
	if place := slices.Index(p[:known], lane); place >= 0 {
		return known - place
	}
	return 0
}

// failed returns p with lane in front.
func (p probed) failed(lane uint64) probed {
	rest := slices.DeleteFunc(slices.Clone(p[:]), func(l uint64) bool { return l == lane || l == 0 })
	next := probed{lane}
	copy(next[1:], rest)
	return next
}

// Open reports whether the circuit is open, so that only probes are admitted.
func (s State) Open() bool { return !s.Until.IsZero() }

// waiting is the longest wait between checks of a circuit with a probe in flight.
const waiting = time.Second

// yield is how much later each lane in the order of probes may probe than the one before it. Short pauses reduce it.
const yield = 200 * time.Millisecond

// turn returns how long after a host's pause a lane may probe: by its place in the order of probes, and among lanes with
// the same place by lot, which each opening draws anew. So a lane with few messages beside lanes with many gets its turn.
func (p Policy) turn(s State, lane uint64) time.Duration {
	step := min(yield, p.Pause/(2*time.Duration(len(s.Probed))))
	var seed [16]byte
	binary.BigEndian.PutUint64(seed[:8], lane)
	binary.BigEndian.PutUint64(seed[8:], uint64(s.Opened))
	digest := sha256.Sum256(seed[:])
	lot := time.Duration(binary.BigEndian.Uint32(digest[:])) * step >> 32
	return time.Duration(s.Probed.turn(lane))*step + lot
}

// Event is an attempt's result for one circuit.
type Event struct {
	// Lane is the number of the attempt's lane for a host's circuit, and zero for a lane's.
	Lane uint64
	// Failed reports whether the attempt failed. RetryAfter is then the pause that the receiver asked for; zero for none.
	Failed     bool
	RetryAfter time.Duration
}

// Admit decides whether an attempt that ends within lease may begin at now. If not, wait is how long to wait before
// asking again. For a host's circuit, lane is the number of the attempt's lane; otherwise it is zero. Lanes take turns
// to probe: a lane whose probe failed lets the others go first.
func (p Policy) Admit(s State, lane uint64, now time.Time, lease time.Duration) (next State, wait time.Duration) {
	if !s.Open() {
		return s, 0
	}
	turn := time.Duration(0)
	if lane != 0 {
		turn = p.turn(s, lane)
	}
	// A wait longer than any pause means that the clock was set back.
	if wait := s.Until.Add(turn).Sub(now); wait > 0 && wait <= 2*p.MaxPause {
		return s, wait
	}
	if wait := s.ProbeEnds.Sub(now); wait > 0 && wait <= lease {
		return s, min(wait, waiting)
	}
	s.ProbeEnds, s.Changed = now.Add(lease), now
	return s, 0
}

// Release returns the state after an admitted attempt that says nothing about the circuit. Another attempt may then
// probe.
func (p Policy) Release(s State, now time.Time) State {
	if s.Open() && !s.ProbeEnds.IsZero() {
		s.ProbeEnds, s.Changed = time.Time{}, now
	}
	return s
}

// After returns the state after an attempt that ended at now; random is in [0, 1). A host's circuit opens only if no
// other lane was answered within the window, since such an answer shows that the host is alive. RetryAfter makes a
// pause longer, up to MaxPause.
func (p Policy) After(s State, e Event, now time.Time, random float64) State {
	switch {
	case !e.Failed:
		if s.Row == 0 && !s.Open() {
			return s
		}
		next := State{Changed: now, Answered: s.Answered, LanesUntil: s.LanesUntil}
		if e.Lane != 0 {
			next.Answered = next.Answered.With(e.Lane, now)
		}
		return next
	case s.Open() && s.ProbeEnds.IsZero(): // The attempt began before the circuit opened.
		return s
	}
	s.Row, s.Changed, s.Answered = s.Row+1, now, s.Answered.Without(e.Lane)
	if s.Row < p.Failures || e.Lane != 0 && !s.Open() && s.Answered.Others(e.Lane, now.Add(-window)) {
		return s
	}
	pause := min(p.Pause<<min(s.Opened, 20), p.MaxPause)
	pause += time.Duration(float64(pause) * (0.4*random - 0.2))
	pause = max(pause, min(e.RetryAfter, p.MaxPause))
	s.Opened, s.Until, s.ProbeEnds = s.Opened+1, now.Add(pause), time.Time{}
	if e.Lane != 0 {
		s.Probed = s.Probed.failed(e.Lane)
	}
	return s
}
