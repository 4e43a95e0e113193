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
	// interval is how often a replica reports.
	interval = time.Second
	// slowInterval is how often it reports to the slow store too.
	slowInterval = 5 * time.Second
	fastTimeout  = 500 * time.Millisecond
	slowTimeout  = 2 * time.Second
	// retention is how long after its last report a dead replica is still listed.
	retention = 5 * time.Minute
)

// ReportStore exchanges the reports of all replicas.
type ReportStore interface {
	// Exchange stores this replica's report and returns those of all replicas, its own included. It may omit those that
	// are older than kept.
	Exchange(ctx context.Context, r Report, kept time.Duration) ([]Report, error)
	// Delete removes a replica's report.
	Delete(ctx context.Context, replica string) error
}

// Check is a readiness check and its result; nil means ready.
type Check struct {
	Name string
	Err  error
}

// Sources are what a replica's report is made from.
type Sources struct {
	// Checks returns the results of the readiness checks. A check that fails with Draining means that the replica is
	// stopping.
	Checks   func(ctx context.Context) []Check
	Draining error
	// Vendors returns what was observed of providers, Providers the names of the configured ones.
	Vendors   func() []ProviderReport
	Providers func() []string
	// Policy returns the version of the policy in force, and a short code of what keeps the policy that was last
	// released from being in force here; empty for nothing.
	Policy func() (version, problem string)
	// Pings check dependencies, by name.
	Pings map[string]func(ctx context.Context) error
}

// Options configure a Monitor. Fast may be nil.
type Options struct {
	// Replica is this replica's name, Address the host and address it listens on.
	Replica, Address, Version string
	// Ledger is the mode of this replica's ledger.
	Ledger  string
	Sources Sources
	// Fast receives a report every second, Slow every five seconds; without Fast, Slow receives one every two seconds.
	Fast, Slow ReportStore
	Log        *slog.Logger
}

// Monitor determines the state of the gateway as this replica sees it. It is safe for concurrent use.
type Monitor struct {
	Options
	started time.Time
	// watched returns further statuses whose beginning is to be recorded, by what they are of; nil for none.
	watched func() map[string]string

	refreshing sync.Mutex // one refresh at a time
	stored     time.Time  // when Slow was last called
	slow       []Report   // and the reports it returned
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
	// Latency of a successful check; At is when the check was made.
	Latency time.Duration
	At      time.Time
	Since   time.Time
}

// NewMonitor returns a Monitor without a verdict yet.
func NewMonitor(o Options) *Monitor {
	return &Monitor{Options: o, started: time.Now().UTC(), marks: make(map[string]Mark), pings: make(map[string]Ping)}
}

// Run refreshes the verdict every interval until ctx ends.
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

// Close removes this replica from the stores, since a replica that stopped in order is not down. If they can't be
// reached, the replica counts as down until its report is too old.
func (m *Monitor) Close(ctx context.Context) error {
	m.refreshing.Lock()
	defer m.refreshing.Unlock()
	if err := m.removeReplica(ctx, m.Replica); err != nil {
		m.Log.WarnContext(ctx, "removing this replica's status report failed; it is listed as down until the report expires", slog.String("error", err.Error()))
	}
	return nil
}

// removeReplica removes a replica's reports from the stores.
func (m *Monitor) removeReplica(ctx context.Context, replica string) error {
	ctx, cancel := context.WithTimeout(ctx, slowTimeout)
	defer cancel()
	var errs []error
	for _, store := range []ReportStore{m.Fast, m.Slow} {
		if store != nil {
			errs = append(errs, store.Delete(ctx, replica))
		}
	}
	return errors.Join(errs...)
}

// Refresh pings the dependencies, exchanges reports with the other replicas and determines the verdict.
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

// Fleet returns the last verdict; its At is zero before the first.
func (m *Monitor) Fleet() Fleet {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fleet
}

// Ready returns the last results of the readiness checks.
func (m *Monitor) Ready() []Check {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.ready
}

// Ping returns the last measurement of a dependency; its State is Unknown if there is none.
func (m *Monitor) Ping(name string) Ping {
	m.mu.Lock()
	defer m.mu.Unlock()
	if p, ok := m.pings[name]; ok {
		return p
	}
	return Ping{State: Unknown}
}

// Mark records a status of something and returns when it began, as far as this replica knows.
func (m *Monitor) Mark(name, status string) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.mark(name, status, nil, time.Now().UTC())
}

// mark records when a status began: the earliest time that any live replica knows of, so that a replica that has just
// started does not make it younger. The caller holds the lock.
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

// measure pings all dependencies concurrently.
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

// report returns this replica's present report.
func (m *Monitor) report(ctx context.Context) Report {
	r := Report{Replica: m.Replica, Address: m.Address, Version: m.Version, Ledger: m.Ledger, StartedAt: m.started, Ready: true, Vendors: m.Sources.Vendors(), Since: make(map[string]Mark)}
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

// exchange sends the report to the stores and returns the latest report of each replica. If no store can be reached it
// returns only its own.
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
	for i := range m.slow { // They have aged since.
		r := m.slow[i]
		r.Age += now.Sub(m.stored)
		if r.Age < retention {
			take([]Report{r})
		}
	}
	taken := make(map[string]bool)
	for _, r := range latest {
		taken[r.Address] = taken[r.Address] || r.Age <= aliveFor && r.Address != ""
	}
	reports := make([]Report, 0, len(latest))
	for _, r := range latest {
		switch {
		case r.Age <= aliveFor || !taken[r.Address]:
			reports = append(reports, r)
		case r.Address == m.Address: // This replica has replaced it for good.
			_ = m.removeReplica(ctx, r.Replica) // Else at the next refresh.
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
		return err // The pings report that it is down.
	}
	take(reports)
	return nil
}
