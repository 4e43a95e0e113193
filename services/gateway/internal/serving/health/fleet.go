package health

import (
	"context"
	"log/slog"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/platform/panics"
)

// Times of the exchange between replicas.
const (
	// exchangeInterval is how often a replica sends its reports, which also keeps it alive for the others. A change is
	// sent at once, but no more often than minExchangeInterval.
	exchangeInterval    = time.Second
	minExchangeInterval = 50 * time.Millisecond
	// peersTimeout bounds one exchange.
	peersTimeout = 500 * time.Millisecond
	// leaseTimeout bounds the call that acquires a probe's lease.
	leaseTimeout = 100 * time.Millisecond
	// probeSlack is how long beyond its time an open circuit is still reported as open: by then its probe should have
	// an outcome.
	probeSlack = 10 * time.Second
)

// Peers exchanges reports between the monitors of all replicas. If a method fails, each replica decides alone.
type Peers interface {
	// Exchange replaces this replica's reports and returns those of all live replicas, its own included. changed
	// notifies the other replicas.
	Exchange(ctx context.Context, reports []Report, changed bool) (View, error)
	// Lease acquires the exclusive right to probe a circuit for the duration life.
	Lease(ctx context.Context, c Circuit, life time.Duration) (bool, error)
	// Watch calls onChange after another replica's change, until ctx ends.
	Watch(ctx context.Context, onChange func()) error
}

// Report is what one replica reports of a circuit: that it stays open for a duration, or that its probe passed. Age is
// the time since either happened. Times are durations, since the clocks of replicas differ.
type Report struct {
	// Replica is the reporting replica's name among the peers.
	Replica string
	Circuit Circuit
	// Organization is the number of the only organization that the report is about; 0 for all.
	Organization uint64
	Open         bool
	For          time.Duration
	Age          time.Duration
}

// View is the result of an exchange.
type View struct {
	// Self is this replica's name, Replicas how many replicas are live.
	Self     string
	Replicas int
	Reports  []Report
}

// Run exchanges reports with the other replicas and follows what most of them report, until ctx ends. It returns at
// once if there are no Peers.
func (m *Monitor) Run(ctx context.Context) error {
	return (&exchanger{peers: m.Peers, log: m.Log, changed: m.changed, reports: m.reports, apply: m.apply}).run(ctx)
}

// exchanger exchanges reports with the other replicas.
type exchanger struct {
	peers   Peers // nil for none
	log     *slog.Logger
	changed <-chan struct{}
	// reports returns what this replica has observed itself, apply follows what others have.
	reports func(now time.Time) []Report
	apply   func(ctx context.Context, view View)
}

func (x *exchanger) run(ctx context.Context) error {
	if x.peers == nil {
		return nil
	}
	reported := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(panics.Guard(func() error {
		return x.peers.Watch(ctx, func() {
			select {
			case reported <- struct{}{}:
			default:
			}
		})
	}))
	group.Go(panics.Guard(func() error { return x.exchanges(ctx, reported) }))
	return group.Wait()
}

func (x *exchanger) exchanges(ctx context.Context, reported <-chan struct{}) error {
	ticker := time.NewTicker(exchangeInterval)
	defer ticker.Stop()
	var away bool
	for changed := false; ; {
		err := x.exchange(ctx, changed)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			x.log.WarnContext(ctx, "exchange with other replicas failed; circuit breakers decide by this replica's calls alone", slog.String("error", err.Error()))
		case err == nil && away:
			x.log.InfoContext(ctx, "exchange with other replicas works again")
		}
		if away = err != nil; away {
			x.apply(ctx, View{})
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(minExchangeInterval):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			changed = false
		case <-reported:
			changed = false
		case <-x.changed:
			changed = true
		}
	}
}

func (x *exchanger) exchange(ctx context.Context, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	view, err := x.peers.Exchange(ctx, x.reports(time.Now()), changed)
	if err != nil {
		return err
	}
	x.apply(ctx, view)
	return nil
}

// reports returns what this replica has observed itself.
func (m *Monitor) reports(now time.Time) []Report {
	var all []Report
	for _, c := range m.all() {
		if report, ok := c.now().report(now, m.Policy); ok {
			report.Circuit = c.name
			all = append(all, report)
		}
		for id, hold := range c.tenants.breakers() {
			if report, ok := hold.now().report(now, m.Policy); ok {
				report.Circuit, report.Organization = c.name, id
				all = append(all, report)
			}
		}
	}
	return all
}

// report returns what a replica reports of a state; ok is false when there is nothing to report.
func (s State) report(now time.Time, p Policy) (r Report, ok bool) {
	age := now.Sub(s.Since)
	switch {
	case !s.Own:
		return Report{}, false
	case s.Phase != Closed:
		return Report{Open: true, For: max(s.Until.Sub(now), 0) + probeSlack, Age: age}, now.Before(s.Until.Add(probeSlack))
	}
	return Report{Age: age}, age < p.MaxDelay
}

func (m *Monitor) all() []*circuit {
	m.mu.Lock()
	defer m.mu.Unlock()
	all := make([]*circuit, 0, len(m.circuits))
	for _, c := range m.circuits {
		all = append(all, c)
	}
	return all
}

// subject is what reports are about: a circuit, for all organizations or for one.
type subject struct {
	Circuit

	organization uint64
}

// apply follows a view; the empty View is that of a replica alone. Reports about one organization are votes on that
// organization only, so that its failures on several replicas open no circuit for others.
func (m *Monitor) apply(ctx context.Context, view View) {
	by := make(map[subject][]Report)
	for _, r := range view.Reports {
		if r.Replica != view.Self {
			at := subject{r.Circuit, r.Organization}
			by[at] = append(by[at], r)
		}
	}
	m.mu.Lock()
	for at := range by {
		m.circuit(m.vendor(at.Provider), at.Family, true)
	}
	m.mu.Unlock()
	for _, c := range m.all() {
		c.follow(ctx, by[subject{c.name, 0}], view.Replicas)
		for id, hold := range c.tenants.breakers() {
			at := subject{c.name, id}
			hold.follow(ctx, by[at], view.Replicas)
			delete(by, at)
		}
	}
	for at, reports := range by {
		if at.organization != 0 {
			m.followHeld(ctx, at, reports, view.Replicas)
		}
	}
}

// follow applies the other replicas' reports.
func (b *breaker) follow(ctx context.Context, reports []Report, replicas int) {
	e := b.now().view(reports, replicas, time.Now())
	b.openElsewhere.Store(countOpen(reports))
	b.step(ctx, e)
}

// followHeld holds an organization back that most replicas hold back and that this one has not seen fail.
func (m *Monitor) followHeld(ctx context.Context, at subject, reports []Report, replicas int) {
	if !(State{}).view(reports, replicas, time.Now()).Quorum {
		return
	}
	m.mu.Lock()
	c := m.circuits[at.Circuit]
	m.mu.Unlock()
	if c == nil || open(c.generation.Load()) {
		return
	}
	t := c.tenants.findOrMake(caller{id: at.organization}, c.policy, true, m.now().Sub(m.base))
	if hold := c.breakerOf(t); hold != nil {
		hold.follow(ctx, reports, replicas)
	}
}

// view returns the event that the other replicas' reports amount to. A quorum needs most of the live replicas, so that
// one replica that can't reach a vendor does not take it from all.
func (s State) view(reports []Report, replicas int, now time.Time) Event {
	e := Event{Kind: Viewed}
	votes := 0
	for _, r := range reports {
		at := now.Add(-r.Age)
		switch {
		case !r.Open:
			if at.After(e.Closed) {
				e.Closed = at
			}
		case s.Phase == Closed && s.Own && at.Before(s.Since):
			// This replica's own probe passed since.
		default:
			votes++
			e.For = max(e.For, r.For)
		}
	}
	e.Quorum = votes > 0 && votes >= replicas/2+1
	return e
}

// lease reports whether this replica may probe, for all organizations or for one. If the peers can't be reached it may:
// each replica decides alone then.
func (m *Monitor) lease(ctx context.Context, c Circuit, organization uint64) bool {
	if organization != 0 {
		c.Family += "@" + strconv.FormatUint(organization, 16)
	}
	return leased(ctx, m.Peers, c, m.Policy.ProbeTime)
}

// leased reports whether this replica may probe a circuit for the duration life.
func leased(ctx context.Context, peers Peers, c Circuit, life time.Duration) bool {
	if peers == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	ok, err := peers.Lease(ctx, c, life)
	return ok || err != nil
}

func countOpen(reports []Report) (n int32) {
	for _, r := range reports {
		if r.Open {
			n++
		}
	}
	return n
}
