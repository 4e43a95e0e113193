// Package upkeep does what the store needs from time to time: partitions for
// the days to come, the end of deliveries whose deadline has passed, and the
// removal of idempotency keys that have run out. Every replica does it; the
// steps don't mind company.
package upkeep

import (
	"context"
	"fmt"
	"log/slog"
	"time"
)

const (
	// PartitionDays are kept, from yesterday on: long enough for a service whose
	// upkeep fails to be noticed before the last one is full.
	PartitionDays = 5
	// page bounds what one transaction ends or removes.
	page = 1000
	// stepTimeout bounds one step.
	stepTimeout = 10 * time.Second
)

// Store does the steps.
type Store interface {
	// EnsurePartitions makes those of so many days from yesterday on that are missing.
	EnsurePartitions(ctx context.Context, days int) (made int, err error)
	// ExpireDue ends at most limit deliveries whose deadline has passed.
	ExpireDue(ctx context.Context, limit int) (expired int, err error)
	// PurgeKeys removes at most limit keys that have run out.
	PurgeKeys(ctx context.Context, limit int) (purged int, err error)
}

// Keeper runs the steps, each at its own pace.
type Keeper struct {
	store   Store
	log     *slog.Logger
	expired func(ctx context.Context, n int)
}

// New returns a Keeper; expired is told of deliveries that were ended.
func New(store Store, log *slog.Logger, expired func(ctx context.Context, n int)) *Keeper {
	return &Keeper{store: store, log: log, expired: expired}
}

// Prepare makes the partitions that a start needs.
func (k *Keeper) Prepare(ctx context.Context) error {
	made, err := k.store.EnsurePartitions(ctx, PartitionDays)
	if err != nil {
		return fmt.Errorf("ensure partitions: %w", err)
	}
	if made > 0 {
		k.log.InfoContext(ctx, "partitions made", slog.Int("count", made))
	}
	return nil
}

// Run repeats the steps until ctx ends. One that fails is tried again at its
// next turn.
func (k *Keeper) Run(ctx context.Context) error {
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
			name, do = "expire deliveries", k.expire
		case <-minute.C:
			name, do = "purge keys", k.purge
		case <-hour.C:
			name, do = "make partitions", k.Prepare
		}
		if err := bounded(ctx, do); err != nil && ctx.Err() == nil {
			k.log.ErrorContext(ctx, "upkeep failed", slog.String("step", name), slog.String("error", err.Error()))
		}
	}
}

func bounded(ctx context.Context, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	return do(ctx)
}

func (k *Keeper) expire(ctx context.Context) error {
	return pages(ctx, func(ctx context.Context, limit int) (int, error) {
		n, err := k.store.ExpireDue(ctx, limit)
		if n > 0 {
			k.expired(ctx, n)
		}
		return n, err
	})
}

func (k *Keeper) purge(ctx context.Context) error { return pages(ctx, k.store.PurgeKeys) }

// pages repeats a step while it finds full pages.
func pages(ctx context.Context, step func(context.Context, int) (int, error)) error {
	for {
		n, err := step(ctx, page)
		if err != nil || n < page {
			return err
		}
	}
}
