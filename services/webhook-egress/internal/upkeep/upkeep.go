// Package upkeep does the store's periodic maintenance: it creates the partitions of coming days and drops those past
// retention, expires deliveries whose deadline has passed, and removes expired idempotency keys, old house events and idle
// flows. Every replica runs it; the steps may run concurrently.
package upkeep

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// PartitionDays is how many days have partitions, beginning with yesterday: enough to notice a failing upkeep
	// before the last one is reached.
	PartitionDays = 5
	// page bounds how many rows one transaction ends or removes.
	page = 1000
	// stepTimeout bounds one step.
	stepTimeout = 10 * time.Second
	// idleFlow is how long a flow without deliveries is kept.
	idleFlow = 7 * 24 * time.Hour
	// houseRetention is how long house events are kept, and with them the ids by which repeats are known.
	houseRetention = 30 * 24 * time.Hour
	// idleTarget is how long the open circuit of a target is remembered without a probe, as the breaker does.
	idleTarget = time.Hour
	// busyTries is how often a step that gave way to traffic is retried, after busyPause each.
	busyTries, busyPause = 20, 200 * time.Millisecond
	// orderPages is how many pages of ordering keys are looked at in a minute.
	orderPages = 20
)

// Store executes the steps.
type Store interface {
	// EnsurePartitions creates the missing partitions of that many days, beginning with yesterday.
	EnsurePartitions(ctx context.Context, days int) (made int, err error)
	// ExpireDue ends at most limit deliveries whose deadline has passed.
	ExpireDue(ctx context.Context, limit int) (expired int, err error)
	// PurgeKeys removes at most limit expired keys.
	PurgeKeys(ctx context.Context, limit int) (purged int, err error)
	// PurgeHouseEvents removes at most limit house events that were recorded longer ago than the retention.
	PurgeHouseEvents(ctx context.Context, retention time.Duration, limit int) (purged int, err error)
	// CloseForgottenTargets reports that at most limit circuits are closed which nothing has probed for so long.
	CloseForgottenTargets(ctx context.Context, idle time.Duration, limit int) (closed int, err error)
	// RemoveIdleFlows removes at most limit flows without deliveries for that long.
	RemoveIdleFlows(ctx context.Context, idle time.Duration, limit int) (removed int, err error)
	// DropOldestDay drops the oldest day before the retention without queued deliveries, and returns it; the zero
	// time means there is none. It returns ErrBusy when other transactions would have had to wait.
	DropOldestDay(ctx context.Context, retention time.Duration) (day time.Time, err error)
	// ReleaseStranded looks at most at limit ordering keys behind after, and releases the first delivery of each whose
	// predecessor was ended by a release that doesn't know ordering keys. It returns the last key; zero for the end.
	ReleaseStranded(ctx context.Context, after OrderCursor, limit int) (next OrderCursor, released int, err error)
}

// OrderCursor is an ordering key of a flow.
type OrderCursor struct {
	Flow int64
	Key  string
}

// ErrBusy reports that a step gave way to traffic and may be tried again.
var ErrBusy = errors.New("upkeep: the tables are busy")

// Maintainer runs the steps, each at its own interval.
type Maintainer struct {
	store Store
	log   *slog.Logger
	// retention is how long deliveries are kept; zero for ever.
	retention time.Duration
	expired   func(ctx context.Context, n int)
	// order is the ordering key that was looked at last.
	order OrderCursor
}

// New returns a Maintainer with a retention, zero for ever; expired is called with the number of deliveries that were
// ended.
func New(store Store, log *slog.Logger, retention time.Duration, expired func(ctx context.Context, n int)) *Maintainer {
	return &Maintainer{store: store, log: log, retention: retention, expired: expired}
}

// Prepare creates the partitions that the service needs at its start.
func (m *Maintainer) Prepare(ctx context.Context) error {
	made, err := m.store.EnsurePartitions(ctx, PartitionDays)
	if err != nil {
		return fmt.Errorf("ensure partitions: %w", err)
	}
	if made > 0 {
		m.log.InfoContext(ctx, "partitions made", slog.Int("count", made))
	}
	return nil
}

// Run repeats the steps until ctx ends. A failed step is tried again at its next interval.
func (m *Maintainer) Run(ctx context.Context) error {
	second := time.NewTicker(time.Second)
	defer second.Stop()
	minute := time.NewTicker(time.Minute)
	defer minute.Stop()
	hour := time.NewTicker(time.Hour)
	defer hour.Stop()
	for {
		var name string
		var do func(context.Context) error
		select {
		case <-ctx.Done():
			return nil
		case <-second.C:
			name, do = "expire deliveries", m.expire
		case <-minute.C:
			name, do = "minutely", m.minutely
		case <-hour.C:
			name, do = "turn days", m.days
		}
		if err := bounded(ctx, do); err != nil && ctx.Err() == nil {
			m.log.ErrorContext(ctx, "upkeep failed", slog.String("step", name), slog.String("error", err.Error()))
		}
	}
}

// days creates the partitions of coming days, drops those past retention, and removes idle flows. If one fails, the
// others still run.
func (m *Maintainer) days(ctx context.Context) error {
	return errors.Join(m.Prepare(ctx), m.drop(ctx), pages(ctx, func(ctx context.Context, limit int) (int, error) {
		return m.store.RemoveIdleFlows(ctx, idleFlow, limit)
	}))
}

// drop drops every day past the retention without queued deliveries.
func (m *Maintainer) drop(ctx context.Context) error {
	if m.retention <= 0 {
		return nil
	}
	for tries := 0; ; {
		day, err := m.store.DropOldestDay(ctx, m.retention)
		switch {
		case errors.Is(err, ErrBusy) && tries < busyTries:
			tries++
			if err := pause(ctx, busyPause); err != nil {
				return err
			}
		case err != nil:
			return fmt.Errorf("drop a day: %w", err)
		case day.IsZero():
			return nil
		default:
			m.log.InfoContext(ctx, "dropped a day", slog.String("day", day.Format(time.DateOnly)))
		}
	}
}

func pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return lifecycle.Protect(ctx, "webhook upkeep", func() error { return do(ctx) })
}

func (m *Maintainer) expire(ctx context.Context) error {
	return pages(ctx, func(ctx context.Context, limit int) (int, error) {
		n, err := m.store.ExpireDue(ctx, limit)
		if n > 0 {
			m.expired(ctx, n)
		}
		return n, err
	})
}

// minutely purges idempotency keys and house events, closes forgotten circuits, and releases stranded deliveries. If one
// fails, the others still run.
func (m *Maintainer) minutely(ctx context.Context) error {
	return errors.Join(pages(ctx, m.store.PurgeKeys), pages(ctx, func(ctx context.Context, limit int) (int, error) {
		return m.store.PurgeHouseEvents(ctx, houseRetention, limit)
	}), pages(ctx, func(ctx context.Context, limit int) (int, error) {
		return m.store.CloseForgottenTargets(ctx, idleTarget, limit)
	}), m.release(ctx))
}

// release looks at the next orderPages pages of ordering keys.
func (m *Maintainer) release(ctx context.Context) error {
	for range orderPages {
		next, released, err := m.store.ReleaseStranded(ctx, m.order, page)
		if err != nil {
			return fmt.Errorf("release stranded deliveries: %w", err)
		}
		if released > 0 {
			m.log.WarnContext(ctx, "released deliveries whose predecessor ended", slog.Int("count", released))
		}
		if m.order = next; next == (OrderCursor{}) {
			return nil
		}
	}
	return nil
}

// pages repeats a step while it returns full pages.
func pages(ctx context.Context, step func(context.Context, int) (int, error)) error {
	for {
		n, err := step(ctx, page)
		if err != nil || n < page {
			return err
		}
	}
}
