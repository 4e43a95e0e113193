package status

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"switchyard.dev/services/platform/panics"
)

const (
	// interval is how often a replica says what it sees.
	interval = time.Second
	// slowInterval is how often it says so to the slower store too.
	slowInterval = 5 * time.Second
	fastTimeout  = 500 * time.Millisecond
	slowTimeout  = 2 * time.Second
	// forgotten is when a replica that has gone silent is no more told of.
	retention = 5 * time.Minute
)

// ReportStore is where replicas tell each other. Both methods fail when it is away.
type ReportStore interface {
	// Exchange replaces this replica's report and gives those of all, its own too.
	// Those that were silent for longer than kept may be left out.
	Exchange(ctx context.Context, r Report, kept time.Duration) ([]Report, error)
	// Leave takes this replica's report away.
	Leave(ctx context.Context, replica string) error
}

// Check is a readiness check and what it said.
type Check struct {
	Name string
	Err  error
}

// Sources are what a replica sees.
type Sources struct {
	// Checks are the readiness checks; Draining tells which error is that of a stop.
	Checks   func(ctx context.Context) []Check
	Draining error
	// Vendors are what was seen of providers, Providers those configured.
	Vendors   func() []ProviderReport
	Providers func() []string
	// Policy in force, and a short code of what keeps the one that was last released
	// from being it.
	Policy func() (version, problem string)
	// Pings measure dependencies, by name.
	Pings map[string]func(ctx context.Context) error
}

// Options of a Monitor. Fast may be nil.
type Options struct {
	// Replica is this one's name, Place where it listens.
	Replica, Place, Version string
	Sources                 Sources
	// Fast is told every second, Slow every five; without Fast, Slow every two.
	Fast, Slow ReportStore
	Log        *slog.Logger
}

// Monitor is the state of the gateway as this replica sees it. Safe for
// concurrent use.
type Monitor struct {
	Options
	started time.Time
	// watched gives further statuses, by what they are of, whose begin is to be
	// known; nil for none.
	watched func() map[string]string

	refreshing sync.Mutex // one look at a time
	stored     time.Time  // when Slow was last asked
	slow       []Report   // and what it said
	fastBad    bool

	mu    sync.Mutex
	marks map[string]Mark
	fleet Fleet
	pings map[string]Ping
	ready []Check
}

// Ping is the measured state of a dependency.
type Ping struct {
	State State
	// Latency of a check that went well; At is when it was made.
	Latency time.Duration
	At      time.Time
	Since   time.Time
}

// NewMonitor returns a monitor that has seen nothing.
func NewMonitor(o Options) *Monitor {
	return &Monitor{Options: o, started: time.Now().UTC(), marks: make(map[string]Mark), pings: make(map[string]Ping)}
}

// Run looks until ctx ends. It is a part of the service's lifecycle.
func (m *Monitor) Run(ctx context.Context) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		m.Refresh(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// Close takes this replica off the stores: one that stopped in order is not down.
// Where they are away, it is taken for silent, and forgotten in time.
func (m *Monitor) Close(ctx context.Context) error {
	m.refreshing.Lock()
	defer m.refreshing.Unlock()
	if err := m.removeReplica(ctx, m.Replica); err != nil {
		m.Log.WarnContext(ctx, "this replica could not say that it leaves", slog.String("error", err.Error()))
	}
	return nil
}

// removeReplica takes a replica's reports off the stores.
func (m *Monitor) removeReplica(ctx context.Context, replica string) error {
	ctx, cancel := context.WithTimeout(ctx, slowTimeout)
	defer cancel()
	var errs []error
	for _, store := range []ReportStore{m.Fast, m.Slow} {
		if store != nil {
			errs = append(errs, store.Leave(ctx, replica))
		}
	}
	return errors.Join(errs...)
}

// Look measures, tells the other replicas and comes to a verdict.
func (m *Monitor) Refresh(ctx context.Context) Fleet {
	m.refreshing.Lock()
	defer m.refreshing.Unlock()
	m.measure(ctx)
	own := m.report(ctx)
	reports := m.exchange(ctx, own)
	var watched map[string]string
	if m.watched != nil {
		watched = m.watched()
	}
	now := time.Now().UTC()
	fleet := Judge(reports, m.Sources.Providers(), now)
	m.mu.Lock()
	defer m.mu.Unlock()
	fleet.Since = m.mark("fleet", string(fleet.Verdict), reports, now)
	for i := range fleet.Vendors {
		v := &fleet.Vendors[i]
		v.Since = m.mark("vendor:"+v.Provider, string(v.State), reports, now)
	}
	for name, status := range watched {
		m.mark(name, status, nil, now)
	}
	m.fleet = fleet
	return fleet
}

// Fleet is the last verdict.
func (m *Monitor) Fleet() Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleet
}

// Ready is what the readiness checks last said.
func (m *Monitor) Ready() []Check {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// Ping is the last measurement of a dependency.
func (m *Monitor) Ping(name string) Ping {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.pings[name]; ok {
		return p
	}
	return Ping{State: Unknown}
}

// Mark notes a status of something and gives since when it holds here.
func (m *Monitor) Mark(name, status string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark(name, status, nil, time.Now().UTC())
}

// mark keeps the time at which a status began, the earliest that any live replica
// knows of: one that has just started does not make it younger. The caller holds
// the lock.
func (m *Monitor) mark(name, status string, reports []Report, now time.Time) time.Time {
	at, known := m.marks[name]
	if !known || at.Status != status {
		at = Mark{Status: status, Since: now}
	}
	for _, r := range reports {
		if of, ok := r.Since[name]; ok && r.Replica != m.Replica && r.Age <= aliveFor && of.Status == status && of.Since.Before(at.Since) {
			at.Since = of.Since
		}
	}
	m.marks[name] = at
	return at.Since
}

// measure pings the dependencies, all at once.
func (m *Monitor) measure(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, fastTimeout)
	defer cancel()
	var wg sync.WaitGroup
	for name, ping := range m.Sources.Pings {
		wg.Go(func() {
			start := time.Now()
			err := panics.Call(func() error { return ping(ctx) })
			p := Ping{State: Up, Latency: time.Since(start), At: time.Now().UTC()}
			if err != nil {
				p.State, p.Latency = Down, 0
			}
			m.mu.Lock()
			defer m.mu.Unlock()
			p.Since = m.mark("ping:"+name, string(p.State), nil, p.At)
			m.pings[name] = p
		})
	}
	wg.Wait()
}

// report is what this replica says now.
func (m *Monitor) report(ctx context.Context) Report {
	r := Report{Replica: m.Replica, Place: m.Place, Version: m.Version, StartedAt: m.started, Ready: true, Vendors: m.Sources.Vendors(), Since: make(map[string]Mark)}
	policy, problem := m.Sources.Policy()
	if r.Policy = policy; problem != "" {
		r.Problems = append(r.Problems, problem)
	}
	checks := m.Sources.Checks(ctx)
	for _, check := range checks {
		switch {
		case check.Err == nil:
		case errors.Is(check.Err, m.Sources.Draining):
			r.Draining = true
		default:
			r.Ready = false
			r.Problems = append(r.Problems, check.Name+"_not_ready")
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.ready = checks
	for name, p := range m.pings {
		if p.State == Down {
			r.Problems = append(r.Problems, name+"_away")
		}
	}
	slices.Sort(r.Problems)
	for name, at := range m.marks {
		if name == "fleet" || strings.HasPrefix(name, "vendor:") {
			r.Since[name] = at
		}
	}
	return r
}

// exchange reports to the stores and returns the latest report of each replica. A
// replica that can reach no board knows only its own.
func (m *Monitor) exchange(ctx context.Context, own Report) []Report {
	latest := map[string]Report{own.Replica: own}
	take := func(reports []Report) {
		for _, r := range reports {
			if of, known := latest[r.Replica]; r.Replica != own.Replica && (!known || r.Age < of.Age) {
				latest[r.Replica] = r
			}
		}
	}
	if m.Fast != nil {
		m.fastBad = m.ask(ctx, m.Fast, own, fastTimeout, take) != nil
	}
	every := slowInterval
	if m.Fast == nil || m.fastBad {
		every = 2 * interval
	}
	now := time.Now()
	if m.Slow != nil && now.Sub(m.stored) >= every {
		said := now
		if m.ask(ctx, m.Slow, own, slowTimeout, func(reports []Report) { m.slow = reports }) != nil {
			m.slow = nil
		}
		m.stored = said
	}
	for i := range m.slow { // They have grown older since.
		r := m.slow[i]
		r.Age += now.Sub(m.stored)
		if r.Age < retention {
			take([]Report{r})
		}
	}
	taken := make(map[string]bool)
	for _, r := range latest {
		taken[r.Place] = taken[r.Place] || r.Age <= aliveFor && r.Place != ""
	}
	reports := make([]Report, 0, len(latest))
	for _, r := range latest {
		switch {
		case r.Age <= aliveFor || !taken[r.Place]:
			reports = append(reports, r)
		case r.Place == m.Place: // This one has taken its place, for good.
			_ = m.removeReplica(ctx, r.Replica) // Or else at the next interval.
		}
	}
	slices.SortFunc(reports, func(a, b Report) int { return cmp.Compare(a.Replica, b.Replica) })
	return reports
}

func (m *Monitor) ask(ctx context.Context, store ReportStore, own Report, limit time.Duration, take func([]Report)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	reports, err := store.Exchange(ctx, own, retention)
	if err != nil {
		return err // The pings say that it is away.
	}
	take(reports)
	return nil
}
