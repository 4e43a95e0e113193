package lifecycle

import (
	"context"
	"log/slog"
	"time"
)

// Repeat does work periodically in the background and tolerates failures. It logs the first failure of a row, including
// a panic, and the recovery, not every failure.
type Repeat struct {
	Every time.Duration
	// Wake triggers the work at once; nil for the interval alone.
	Wake <-chan struct{}
	Do   func(context.Context) error
	Log  *slog.Logger
	// Name of the work, for the log.
	Name string
}

// Run does the work at every tick or wake-up until ctx ends, then returns nil.
func (r Repeat) Run(ctx context.Context) error {
	ticker := time.NewTicker(r.Every)
	defer ticker.Stop()
	failing := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-r.Wake:
		}
		err := Protect(ctx, r.Name, func() error { return r.Do(ctx) })
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil && !failing:
			r.Log.WarnContext(ctx, "background work is failing", slog.String("work", r.Name), slog.String("error", err.Error()))
		case err == nil && failing:
			r.Log.InfoContext(ctx, "background work recovered", slog.String("work", r.Name))
		}
		failing = err != nil
	}
}

// UntilDone repeats a step that does at most limit things, each time within a bound, until it has done fewer.
func UntilDone(ctx context.Context, limit int, bound time.Duration, step func(ctx context.Context, limit int) (int, error)) error {
	for {
		n, err := within(ctx, limit, bound, step)
		if err != nil || n < limit {
			return err
		}
	}
}

func within(ctx context.Context, limit int, bound time.Duration, step func(context.Context, int) (int, error)) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, bound)
	defer cancel()
	return step(ctx, limit)
}
