package spend

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// aggregateEvery is how far the sums lag behind the ledger; reports add the rest.
	aggregateEvery = time.Second
	// aggregateRows is the number of rows in one transaction, expireBuckets that of hours and days, aggregateTime bounds the
	// transaction. The more rows, the more of them are of the same group, and the less each costs. After a failure, which
	// may be for want of time, a quarter of the rows is tried, down to fewestRows.
	aggregateRows, expireBuckets = 20_000, 50
	fewestRows                   = aggregateRows / 64
	aggregateTime                = 30 * time.Second
	// expireEvery is how often hours and days that are no longer kept are deleted.
	expireEvery = 10 * time.Minute
)

// Bounds are how many groups the sums of an organization's bucket may have beside the rest, and from when on hours and
// days are kept.
type Bounds struct {
	HourGroups, DayGroups, MonthGroups int
	HoursSince, DaysSince              time.Time
}

// BoundsAt returns the bounds of a moment.
func BoundsAt(now time.Time) Bounds {
	return Bounds{
		HourGroups: 200, DayGroups: 500, MonthGroups: 1000,
		HoursSince: IntervalHour.floor(now.Add(-hoursReach - day)), DaysSince: IntervalDay.floor(now.Add(-daysReach - day)),
	}
}

// Aggregator updates the sums, on one replica at a time. They are updated after the commits of the ledger, not in them:
// hot rows would make replicas wait for each other.
type Aggregator struct {
	store Store
	log   *slog.Logger
}

// NewAggregator returns an Aggregator that does nothing until Run.
func NewAggregator(store Store, log *slog.Logger) *Aggregator { return &Aggregator{store, log} }

// Run aggregates until ctx ends. It is a part of the service's lifecycle.
func (a *Aggregator) Run(ctx context.Context) error {
	rows := aggregateRows
	return lifecycle.Repeat{
		Every: aggregateEvery, Log: a.log, Name: "aggregate spend",
		Do: func(ctx context.Context) error {
			if err := untilDone(ctx, rows, a.store.Aggregate); err != nil {
				rows = max(rows/4, fewestRows)
				return err
			}
			rows = aggregateRows
			return nil
		},
	}.Run(ctx)
}

// Upkeep deletes hours and days that are no longer kept until ctx ends. It is a part of the service's lifecycle.
func (a *Aggregator) Upkeep(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: expireEvery, Log: a.log, Name: "expire spend",
		Do: func(ctx context.Context) error { return untilDone(ctx, expireBuckets, a.store.Expire) },
	}.Run(ctx)
}

// untilDone repeats a step with the bounds of its moment.
func untilDone(ctx context.Context, limit int, step func(context.Context, Bounds, int) (int, error)) error {
	return lifecycle.UntilDone(ctx, limit, aggregateTime, func(ctx context.Context, limit int) (int, error) {
		return step(ctx, BoundsAt(time.Now()), limit)
	})
}
