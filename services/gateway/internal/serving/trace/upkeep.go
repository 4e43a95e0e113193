package trace

import (
	"context"
	"log/slog"
	"time"
)

// Bounds of the upkeep.
const (
	// upkeepEvery is how often what has expired is looked for; it is not served any
	// more before it is deleted.
	upkeepEvery = time.Minute
	// dropBatch records are deleted in one statement, which dropTime bounds.
	dropBatch = 1000
	dropTime  = 10 * time.Second
)

// Upkeep deletes what has expired. Several replicas may do it side by side.
type Upkeep struct {
	store Store
	log   *slog.Logger
}

// NewUpkeep returns an upkeep that does nothing until Run.
func NewUpkeep(store Store, log *slog.Logger) *Upkeep { return &Upkeep{store, log} }

// Run deletes until ctx ends. It is a part of the service's lifecycle.
func (u *Upkeep) Run(ctx context.Context) error {
	ticker := time.NewTicker(upkeepEvery)
	defer ticker.Stop()
	failing := false
	for {
		err := u.catchUp(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			u.log.WarnContext(ctx, "expired traces can't be deleted; they are not served", slog.String("error", err.Error()))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// catchUp deletes batch by batch until nothing is left.
func (u *Upkeep) catchUp(ctx context.Context) error {
	for ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, dropTime)
		n, err := u.store.Drop(bounded, time.Now(), dropBatch)
		cancel()
		if err != nil || n < dropBatch {
			return err
		}
	}
	return nil
}
