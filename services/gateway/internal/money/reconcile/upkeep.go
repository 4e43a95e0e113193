package reconcile

import (
	"context"
	"log/slog"
	"time"
)

const (
	upkeepEvery = time.Hour
	upkeepTime  = 30 * time.Second
	upkeepBatch = 500
)

// Upkeep returns a function that deletes results older than retention, in bounded batches, until its context ends. The
// function is a part of the service's lifecycle.
func (s Service) Upkeep(retention time.Duration, log *slog.Logger) func(context.Context) error {
	return func(ctx context.Context) error {
		ticker := time.NewTicker(upkeepEvery)
		defer ticker.Stop()
		for {
			if err := s.sweep(ctx, time.Now().Add(-retention)); err != nil && ctx.Err() == nil {
				log.WarnContext(ctx, "old reconciliations are not deleted yet", slog.String("error", err.Error()))
			}
			select {
			case <-ctx.Done():
				return nil
			case <-ticker.C:
			}
		}
	}
}

func (s Service) sweep(ctx context.Context, before time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, upkeepTime)
	defer cancel()
	for {
		deleted, err := s.Forget(ctx, before, upkeepBatch)
		if err != nil || deleted < upkeepBatch {
			return err
		}
	}
}
