package trace

import (
	"context"
	"log/slog"
	"time"
)

// Bounds of the upkeep.
const (
	// upkeepEvery is how often expired records are deleted. They are no longer served before that.
	upkeepEvery = time.Minute
	// dropBatch is the number of rows that one statement deletes, each of up to a few MB, and dropTime bounds it.
	dropBatch = 100
	dropTime  = 10 * time.Second
)

// Expiring is a store of records that expire; see Store.
type Expiring interface {
	Drop(ctx context.Context, now time.Time, limit int) (int, error)
}

// Upkeep deletes expired records. Several replicas may run it at the same time.
type Upkeep struct {
	store   Expiring
	records string
	log     *slog.Logger
}

// NewUpkeep returns an Upkeep that deletes nothing until Run. records names what the store holds, for the log.
func NewUpkeep(store Expiring, records string, log *slog.Logger) *Upkeep {
	return &Upkeep{store, records, log}
}

// Run deletes expired records until ctx ends. It is a part of the service's lifecycle.
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
			u.log.WarnContext(ctx, "expired records could not be deleted; they are no longer served",
				slog.String("records", u.records), slog.String("error", err.Error()))
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// catchUp deletes batch after batch until no expired record is left.
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
