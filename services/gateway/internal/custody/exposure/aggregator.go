package exposure

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// aggregateEvery is how far the sums lag behind the ledger; queries add the rest.
	aggregateEvery = time.Second
	// aggregateRows is the number of rows in one transaction, aggregateTime bounds the transaction.
	aggregateRows = 5000
	aggregateTime = 30 * time.Second
)

// Aggregator updates the sums, on one replica at a time. They are updated after the commits of the ledger, not in them:
// hot rows would make replicas wait for each other, and rows of the previous release would be missed.
type Aggregator struct {
	store Store
	log   *slog.Logger
}

// NewAggregator returns an Aggregator that does nothing until Run.
func NewAggregator(store Store, log *slog.Logger) *Aggregator { return &Aggregator{store, log} }

// Run aggregates until ctx ends. It is a part of the service's lifecycle.
func (a *Aggregator) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: aggregateEvery, Do: a.catchUp, Log: a.log,
		Name: "aggregate credential usage",
	}.Run(ctx)
}

// catchUp aggregates until no rows are left.
func (a *Aggregator) catchUp(ctx context.Context) error {
	return lifecycle.UntilDone(ctx, aggregateRows, aggregateTime, a.store.Aggregate)
}
