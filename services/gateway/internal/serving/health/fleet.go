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
	// exchangeInterval is how often replicas say that they live and what they see; a change is
	// told at once, but no more often than minExchangeInterval.
	exchangeInterval    = time.Second
	minExchangeInterval = 50 * time.Millisecond
	// peersTimeout bounds one round trip.
	peersTimeout = 500 * time.Millisecond
	// leaseTimeout is the same for the call that waits for a lease.
	leaseTimeout = 100 * time.Millisecond
	// probeSlack is how long beyond its time an open circuit is reported as open:
	// until then its probe should have said something.
	probeSlack = 10 * time.Second
)

// Peers is where replicas tell each other what they see. Each method fails when
// the board is away; then each replica goes on alone.
type Peers interface {
	// Exchange replaces this replica's reports and returns those of all that live,
	// its own too. changed tells the others to look.
	Exchange(ctx context.Context, reports []Report, changed bool) (View, error)
	// Lease takes the one right to probe a circuit, for a while.
	Lease(ctx context.Context, c Circuit, life time.Duration) (bool, error)
	// Watch calls onChange after another replica's change, until ctx ends.
	Watch(ctx context.Context, onChange func()) error
}

// Report is what one replica says about a circuit: that it is open for so much
// longer, or that its probe passed. Age is the time since either happened. Times
// are spans, since the clocks of replicas differ.
type Report struct {
	// Replica is the board's name of who says it.
	Replica string
	Circuit Circuit
	// Organization that alone it is about, by number; 0 is all.
	Organization uint64
	Open         bool
	For          time.Duration
	Age          time.Duration
}

// View is what the board shows.
type View struct {
	// Self is this replica's name on the board, Replicas how many live.
	Self     string
	Replicas int
	Reports  []Report
}

// Run tells the other replicas what this one sees and follows what most of them
// see, until ctx ends. It is a part of the service's lifecycle.
func (m *Monitor) Run(ctx context.Context) error {
	if m.Peers == nil {
		return nil
	}
	reported := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(panics.Guard(func() error {
		return m.Peers.Watch(ctx, func() {
			select {
			case reported <- struct{}{}:
			default:
			}
		})
	}))
	group.Go(panics.Guard(func() error { return m.exchanges(ctx, reported) }))
	return group.Wait()
}

func (m *Monitor) exchanges(ctx context.Context, reported <-chan struct{}) error {
	ticker := time.NewTicker(exchangeInterval)
	defer ticker.Stop()
	var away bool
	for changed := false; ; {
		err := m.exchange(ctx, changed)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !away:
			m.Log.WarnContext(ctx, "replicas can't be reached; breakers go by what this one sees", slog.String("error", err.Error()))
		case err == nil && away:
			m.Log.InfoContext(ctx, "replicas are reached again")
		}
		if away = err != nil; away {
			m.apply(ctx, View{})
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
		case <-m.changed:
			changed = true
		}
	}
}

func (m *Monitor) exchange(ctx context.Context, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, peersTimeout)
	defer cancel()
	view, err := m.Peers.Exchange(ctx, m.reports(time.Now()), changed)
	if err != nil {
		return err
	}
	m.apply(ctx, view)
	return nil
}

// reports are what this replica has seen itself.
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

// report is what a replica says of a state; ok is false when it has nothing to say.
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

// subject is what reports are about: a circuit, for all or for one organization.
type subject struct {
	Circuit

	organization uint64
}

// apply takes a view; the empty one is that of a replica alone. What replicas say
// of one organization is a vote on that one only, so that it opens no circuit for
// others by failing on several replicas.
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

// follow takes the other replicas' reports.
func (b *breaker) follow(ctx context.Context, reports []Report, replicas int) {
	e := b.now().view(reports, replicas, time.Now())
	b.openElsewhere.Store(countOpen(reports))
	b.step(ctx, e)
}

// followHeld holds an organization back that most replicas do, and this one has
// not seen fail.
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

// view is what the others' reports of a circuit come to. Most of the live
// replicas must say it: one that can't reach a vendor must not take it from all.
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

// lease asks for the right to probe, for all or for one organization. A board that is away gives it: each replica
// goes on alone.
func (m *Monitor) lease(ctx context.Context, c Circuit, organization uint64) bool {
	if m.Peers == nil {
		return true
	}
	if organization != 0 {
		c.Family += "@" + strconv.FormatUint(organization, 16)
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTimeout)
	defer cancel()
	ok, err := m.Peers.Lease(ctx, c, m.Policy.ProbeTime)
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
