package health

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
)

// Times of the exchange between replicas.
const (
	// beat is how often replicas say that they live and what they see; a change is
	// told at once, but no more often than gap.
	beat = time.Second
	gap  = 50 * time.Millisecond
	// boardTime bounds one round trip.
	boardTime = 500 * time.Millisecond
	// leaseTime is the same for the call that waits for a lease.
	leaseTime = 100 * time.Millisecond
	// probeSlack is how long beyond its time an open circuit is reported as open:
	// until then its probe should have said something.
	probeSlack = 10 * time.Second
)

// Board is where replicas tell each other what they see. Each method fails when
// the board is away; then each replica goes on alone.
type Board interface {
	// Exchange replaces this replica's reports and returns those of all that live,
	// its own too. changed tells the others to look.
	Exchange(ctx context.Context, reports []Report, changed bool) (View, error)
	// Lease takes the one right to probe a circuit, for a while.
	Lease(ctx context.Context, c Circuit, life time.Duration) (bool, error)
	// Watch calls heard after another replica's change, until ctx ends.
	Watch(ctx context.Context, heard func()) error
}

// Report is what one replica says about a circuit: that it is open for so much
// longer, or that its probe passed. Age is the time since either happened. Times
// are spans, since the clocks of replicas differ.
type Report struct {
	// Replica is the board's name of who says it.
	Replica string
	Circuit Circuit
	Open    bool
	For     time.Duration
	Age     time.Duration
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
	if m.Board == nil {
		return nil
	}
	heard := make(chan struct{}, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		return m.Board.Watch(ctx, func() {
			select {
			case heard <- struct{}{}:
			default:
			}
		})
	})
	group.Go(func() error { return m.exchanges(ctx, heard) })
	return group.Wait()
}

func (m *Monitor) exchanges(ctx context.Context, heard <-chan struct{}) error {
	ticker := time.NewTicker(beat)
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
		case <-time.After(gap):
		}
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			changed = false
		case <-heard:
			changed = false
		case <-m.changed:
			changed = true
		}
	}
}

func (m *Monitor) exchange(ctx context.Context, changed bool) error {
	ctx, cancel := context.WithTimeout(ctx, boardTime)
	defer cancel()
	view, err := m.Board.Exchange(ctx, m.reports(time.Now()), changed)
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
		c.mu.Lock()
		report, ok := c.state.report(now, m.Policy)
		c.mu.Unlock()
		if report.Circuit = c.name; ok {
			all = append(all, report)
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

// apply takes a view; the empty one is that of a replica alone.
func (m *Monitor) apply(ctx context.Context, view View) {
	by := make(map[Circuit][]Report)
	for _, r := range view.Reports {
		if r.Replica != view.Self {
			by[r.Circuit] = append(by[r.Circuit], r)
		}
	}
	m.mu.Lock()
	for name := range by {
		m.circuit(m.vendor(name.Provider), name.Family)
	}
	m.mu.Unlock()
	now := time.Now()
	for _, c := range m.all() {
		c.mu.Lock()
		e := c.state.view(by[c.name], view.Replicas, now)
		c.mu.Unlock()
		c.openElsewhere.Store(countOpen(by[c.name]))
		c.step(ctx, e)
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

// lease asks for the right to probe. A board that is away gives it: each replica
// goes on alone.
func (m *Monitor) lease(ctx context.Context, c Circuit) bool {
	if m.Board == nil {
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, leaseTime)
	defer cancel()
	ok, err := m.Board.Lease(ctx, c, m.Policy.ProbeTime)
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
