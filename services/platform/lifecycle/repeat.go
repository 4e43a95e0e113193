package lifecycle

import (
	"context"
	"log/slog"
	"time"
)

// Repeat is work that is done again and again in the background, and may fail for a
// while. Failures, panics too, are logged where they begin and where they end, not each time.
type Repeat struct {
	Every time.Duration
	// Wake has it done at once; nil for by the clock alone.
	Wake <-chan struct{}
	Do   func(context.Context) error
	Log  *slog.Logger
	// Name of the work, for the log.
	Name string
}

// Run repeats until ctx ends.
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
			r.Log.WarnContext(ctx, "failing", slog.String("work", r.Name), slog.String("error", err.Error()))
		case err == nil && failing:
			r.Log.InfoContext(ctx, "working again", slog.String("work", r.Name))
		}
		failing = err != nil
	}
}
