package health

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/hashicorp/golang-lru/v2/simplelru"
)

const (
	// maxBreakers bounds the breakers of a Set; those used last stay. maxReports bounds what a replica reports of them.
	maxBreakers = 10_000
	maxReports  = 1000
)

// Set is breakers that stand each alone, for targets that no policy lists, such as tool servers. Each is as a circuit of
// the Monitor: one replica probes it at a time, and most replicas decide for all. It is safe for concurrent use.
type Set struct {
	policy  Policy
	peers   Peers
	log     *slog.Logger
	base    time.Time
	changed chan struct{}

	mu       sync.Mutex
	breakers *simplelru.LRU[Circuit, *breaker]
}

// NewSet returns a Set with every circuit closed. peers is nil for none; it must not be the Monitor's.
func NewSet(p Policy, peers Peers, log *slog.Logger) *Set {
	s := &Set{policy: p, peers: peers, log: log, base: time.Now(), changed: make(chan struct{}, 1)}
	s.breakers, _ = simplelru.NewLRU[Circuit, *breaker](maxBreakers, nil) // It fails for a size below 1 only.
	return s
}

// Run exchanges reports with the other replicas until ctx ends. It returns at once if there are none.
func (s *Set) Run(ctx context.Context) error {
	return (&exchanger{peers: s.peers, log: s.log, changed: s.changed, reports: s.reports, apply: s.apply}).run(ctx)
}

// Acquire lets a call through a circuit, or returns why not and when to ask again. The end of the call is to be reported by
// done, once.
func (s *Set) Acquire(ctx context.Context, c Circuit) (done func(ctx context.Context, v Verdict), refused *Refusal) {
	b := s.find(c, true)
	g, wait, ok := b.acquire(ctx, 0, func(ctx context.Context) bool { return leased(ctx, s.peers, c, s.policy.ProbeTime) })
	if !ok {
		return nil, &Refusal{Cause: CauseOpen, RetryAfter: wait}
	}
	return func(ctx context.Context, v Verdict) { s.record(ctx, b, g, v) }, nil
}

func (s *Set) record(ctx context.Context, b *breaker, g grant, v Verdict) {
	switch {
	case g.generation != b.generation.Load():
		return
	case g.probe:
		b.step(ctx, v.probe())
		return
	case v.Outcome != Good && v.Outcome != Bad:
		return
	}
	at := time.Since(s.base)
	b.window.add(at, v.Outcome == Bad)
	if v.Outcome == Bad && s.policy.fails(b.window.tally(at, s.policy.Window), int(s.policy.Sample)) {
		b.step(ctx, v.tripped())
	}
}

// State returns the present state of a circuit.
func (s *Set) State(c Circuit) State {
	if b := s.find(c, false); b != nil {
		return b.now()
	}
	return State{}
}

// find returns a breaker; without make, nil for one that there isn't.
func (s *Set) find(c Circuit, make bool) *breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	if b, ok := s.breakers.Get(c); ok || !make {
		return b
	}
	b := &breaker{policy: s.policy, window: newWindow(s.policy.Window, windowSlots)}
	b.changed = func(ctx context.Context, change Change) { s.transition(ctx, c, change) }
	s.breakers.Add(c, b)
	return b
}

// transition logs a change of phase, and wakes the exchange with the other replicas.
func (s *Set) transition(ctx context.Context, c Circuit, change Change) {
	s.log.LogAttrs(ctx, slog.LevelWarn, "circuit", slog.String("organization", c.Provider), slog.String("server", c.Family),
		slog.String("from", change.From.String()), slog.String("to", change.To.String()), slog.String("cause", change.Cause))
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

// all returns the breakers, by their circuits.
func (s *Set) all() map[Circuit]*breaker {
	s.mu.Lock()
	defer s.mu.Unlock()
	all := make(map[Circuit]*breaker, s.breakers.Len())
	for _, c := range s.breakers.Keys() {
		all[c], _ = s.breakers.Peek(c)
	}
	return all
}

// reports returns what this replica has observed itself.
func (s *Set) reports(now time.Time) []Report {
	var all []Report
	for c, b := range s.all() {
		if report, ok := b.now().report(now, s.policy); ok && len(all) < maxReports {
			report.Circuit = c
			all = append(all, report)
		}
	}
	return all
}

// apply follows a view. A circuit that this replica has not used follows once most replicas report it as open.
func (s *Set) apply(ctx context.Context, view View) {
	by := make(map[Circuit][]Report)
	for _, r := range view.Reports {
		if r.Replica != view.Self {
			by[r.Circuit] = append(by[r.Circuit], r)
		}
	}
	for c, b := range s.all() {
		if state := b.now(); len(by[c]) > 0 || state.Phase != Closed {
			b.follow(ctx, by[c], view.Replicas)
		}
		delete(by, c)
	}
	now := time.Now()
	for c, reports := range by {
		if (State{}).view(reports, view.Replicas, now).Quorum {
			s.find(c, true).follow(ctx, reports, view.Replicas)
		}
	}
}
