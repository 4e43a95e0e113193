package threshold

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// every is the interval of comparisons, roundTime bounds one.
	every, roundTime = 5 * time.Second, time.Minute
	// rest is how long holders that are far from their limits are not looked at.
	rest = 15 * time.Second
	// slack is how long before the last comparison holders count as active: counts are stored under the minute of their
	// call, some time after it. It is more than rest.
	slack = 3 * time.Minute
	// deepEvery is the interval of comparisons that go back by deep, for counts that came late from the disk of a replica
	// that was down.
	deepEvery, deep = 5 * time.Minute, 2 * time.Hour
	// pageSize is how many holders are compared at once.
	pageSize = 100
)

// Store reads what was counted for good and records events.
type Store interface {
	// Alone runs do, with the moment up to which usage was compared, unless another replica does. It stores the moment
	// that do returns unless do fails.
	Alone(ctx context.Context, do func(ctx context.Context, compared time.Time) (time.Time, error)) error
	// Active returns up to limit holders that were active since a moment, in their order, after one. standard is the plan
	// of organizations without one, empty for none.
	Active(ctx context.Context, since time.Time, standard string, after Holder, limit int) ([]Holder, error)
	// Used returns what each window holds, in the same order: pico-USD for cents.
	Used(ctx context.Context, windows []quota.Window) ([]int64, error)
	// Exhausted returns up to limit organizations that have nothing left of their credits, in their order, after one:
	// those that spent since a moment, or of which a grant has expired since then.
	Exhausted(ctx context.Context, since, now time.Time, standard, after string, limit int) ([]Exhausted, error)
	// Record records events that are not recorded.
	Record(ctx context.Context, events []Event) error
}

// Plans finds plans by their names, see plan.Watcher.
type Plans interface {
	Plan(name string) *plan.Plan
}

// Watcher compares usage with the limits of plans. It is not safe for concurrent use.
type Watcher struct {
	store    Store
	shared   quota.Shared
	plans    Plans
	standard string
	log      *slog.Logger
	// resting are the holders that are far from their limits, until when they are not looked at.
	resting map[Holder]time.Time
	deepAt  time.Time
}

// NewWatcher returns a Watcher that does nothing until Run. shared has what the replicas hold calls to, and may be nil.
// standard is the plan of organizations without one, empty for none.
func NewWatcher(store Store, shared quota.Shared, plans Plans, standard string, log *slog.Logger) *Watcher {
	return &Watcher{store: store, shared: shared, plans: plans, standard: standard, log: log, resting: make(map[Holder]time.Time)}
}

// Run compares until ctx ends. It continues after every failure, and is a part of the service's lifecycle.
func (w *Watcher) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: every, Log: w.log, Name: "limits of plans that are reached",
		Do: func(ctx context.Context) error { return w.Round(ctx, time.Now().UTC()) },
	}.Run(ctx)
}

// Round compares all that was active since the last comparison, on one replica at a time. What it finds is recorded page by
// page: a round that is broken off is repeated as a whole, under the same ids.
func (w *Watcher) Round(ctx context.Context, now time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, roundTime)
	defer cancel()
	return w.store.Alone(ctx, func(ctx context.Context, compared time.Time) (time.Time, error) {
		since := compared.Add(-slack)
		isDeep := now.Sub(w.deepAt) >= deepEvery
		if isDeep && now.Add(-deep).Before(since) {
			since = now.Add(-deep)
		}
		if err := w.compare(ctx, since, now); err != nil {
			return time.Time{}, err
		}
		if err := w.compareCredits(ctx, since, now); err != nil {
			return time.Time{}, err
		}
		if isDeep {
			w.deepAt = now
		}
		return now, nil
	})
}

// compare compares the holders that were active since a moment with their limits.
func (w *Watcher) compare(ctx context.Context, since, now time.Time) error {
	resting := make(map[Holder]time.Time)
	for after := (Holder{}); ; {
		holders, err := w.store.Active(ctx, since, w.standard, after, pageSize)
		if err != nil {
			return fmt.Errorf("find active holders: %w", err)
		}
		var due []Holder
		for _, h := range holders {
			if until, rests := w.resting[h]; rests && now.Before(until) {
				resting[h] = until
				continue
			}
			due = append(due, h)
		}
		if err := w.comparePage(ctx, due, since, now, resting); err != nil {
			return err
		}
		if len(holders) < pageSize {
			w.resting = resting
			return nil
		}
		after = holders[len(holders)-1]
	}
}

// check is a window of a limit, to be compared.
type check struct {
	holder Holder
	limit  plan.Limit
	window quota.Window
}

// checks returns what is to be compared of a holder. Credits are compared by themselves.
func (w *Watcher) checks(h Holder, since, now time.Time) (all []check) {
	p := w.plans.Plan(h.Plan)
	if p == nil {
		return nil
	}
	for _, l := range p.Limits {
		if l.Meter == plan.Credits {
			continue
		}
		for _, window := range windowsSince(h, l, since, now) {
			all = append(all, check{h, l, window})
		}
	}
	return all
}

// comparePage compares holders and records what they have reached. It adds those that may rest.
func (w *Watcher) comparePage(ctx context.Context, holders []Holder, since, now time.Time, resting map[Holder]time.Time) error {
	var all []check
	for _, h := range holders {
		all = append(all, w.checks(h, since, now)...)
	}
	if len(all) == 0 {
		return nil
	}
	used, err := w.used(ctx, all, now)
	if err != nil {
		return err
	}
	var events []Event
	fullest := make(map[Holder]int64, len(holders))
	for i, c := range all {
		reached, err := Reached(c.holder, c.limit, c.window, used[i])
		if err != nil {
			return err
		}
		events = append(events, reached...)
		if of := share(used[i], c.limit.Amount); of < full {
			fullest[c.holder] = max(fullest[c.holder], of)
		}
	}
	for _, h := range holders {
		if d := pause(fullest[h]); d > 0 {
			resting[h] = now.Add(d)
		}
	}
	return w.record(ctx, events)
}

// used returns what is used of each limit. A hard limit refuses calls by what the replicas share, which may be more than
// what was counted: calls that a killed replica had admitted are missing there. While that is away, counts are enough.
func (w *Watcher) used(ctx context.Context, all []check, now time.Time) ([]int64, error) {
	windows := make([]quota.Window, len(all))
	for i, c := range all {
		windows[i] = c.window
	}
	used, err := w.store.Used(ctx, windows)
	if err != nil {
		return nil, fmt.Errorf("read usage: %w", err)
	}
	for i, c := range all {
		used[i] = quota.InUnits(c.limit.Meter, used[i])
	}
	if w.shared == nil {
		return used, nil
	}
	var reports []quota.Report
	var places []int
	for i, c := range all {
		if c.limit.Kind == plan.Hard && !quota.Spends(c.limit.Meter) && now.Before(c.window.End) {
			reports, places = append(reports, quota.Report{Window: c.window, Base: -1}), append(places, i)
		}
	}
	if len(reports) == 0 {
		return used, nil
	}
	counts, _ := w.shared.Add(ctx, reports) // It adds nothing, and returns nothing if it fails.
	for i, n := range counts {
		used[places[i]] = max(used[places[i]], n)
	}
	return used, nil
}

// compareCredits records which organizations have used up their credits.
func (w *Watcher) compareCredits(ctx context.Context, since, now time.Time) error {
	for after := ""; ; {
		found, err := w.store.Exhausted(ctx, since, now, w.standard, after, pageSize)
		if err != nil {
			return fmt.Errorf("find exhausted credits: %w", err)
		}
		var events []Event
		for _, x := range found {
			p := w.plans.Plan(x.Plan)
			e, err := UsedUp(x, p != nil && p.Prepaid, now)
			if err != nil {
				return err
			}
			events = append(events, e)
		}
		if err := w.record(ctx, events); err != nil {
			return err
		}
		if len(found) < pageSize {
			return nil
		}
		after = found[len(found)-1].Organization
	}
}

func (w *Watcher) record(ctx context.Context, events []Event) error {
	if len(events) == 0 {
		return nil
	}
	if err := w.store.Record(ctx, events); err != nil {
		return fmt.Errorf("record events: %w", err)
	}
	return nil
}
