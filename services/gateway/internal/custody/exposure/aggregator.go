package exposure

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// foldEvery is how far the sums are behind the ledger; readers add the rest up.
	foldEvery = time.Second
	// foldRows are folded in one transaction, foldTime bounds it.
	foldRows = 5000
	foldTime = 30 * time.Second
)

// Aggregator keeps the sums up to date, on one replica at a time.
type Aggregator struct {
	store Store
	log   *slog.Logger
}

// NewAggregator returns an Aggregator that does nothing until Run.
func NewAggregator(store Store, log *slog.Logger) *Aggregator { return &Aggregator{store, log} }

// Run folds until ctx ends. It is a part of the service's lifecycle.
func (a *Aggregator) Run(ctx context.Context) error {
	return lifecycle.Repeat{
		Every: foldEvery, Do: a.catchUp, Log: a.log,
		Name: "add up the use of credentials",
	}.Run(ctx)
}

// catchUp folds until nothing is left.
func (a *Aggregator) catchUp(ctx context.Context) error {
	for {
		n, err := a.fold(ctx)
		if err != nil || n < foldRows {
			return err
		}
	}
}

func (a *Aggregator) fold(ctx context.Context) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, foldTime)
	defer cancel()
	return a.store.Fold(ctx, foldRows)
}
