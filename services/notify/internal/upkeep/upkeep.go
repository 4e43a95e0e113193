// Package upkeep deletes data past its retention: idempotency keys, the logs of ended sends, changes of inboxes.
// internal/app runs it in every replica; they skip each other's rows.
package upkeep

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

const (
	// every is the pause between two rounds.
	every = time.Minute
	// batch bounds the rows of a statement, timeout its duration.
	batch   = 1000
	timeout = 20 * time.Second
)

// Kind is a kind of data with a retention.
type Kind struct {
	// What names the kind in log lines.
	What string
	// Age is the retention; zero keeps the data for ever.
	Age time.Duration
	// Delete deletes at most `most` rows older than age, and returns how many.
	Delete func(ctx context.Context, age time.Duration, most int) (int, error)
}

// Sweeper deletes each kind past its age.
type Sweeper struct {
	kinds []Kind
	log   *slog.Logger
}

// New returns a Sweeper of these kinds.
func New(log *slog.Logger, kinds ...Kind) *Sweeper { return &Sweeper{kinds: kinds, log: log} }

// Run works once a minute until ctx ends.
func (s *Sweeper) Run(ctx context.Context) error {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		s.round(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

func (s *Sweeper) round(ctx context.Context) {
	for _, kind := range s.kinds {
		s.drop(ctx, kind)
	}
}

// drop deletes batch by batch until one is not full.
func (s *Sweeper) drop(ctx context.Context, kind Kind) {
	for kind.Age > 0 && ctx.Err() == nil {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		var n int
		err := lifecycle.Protect(ctx, "notify upkeep", func() (err error) {
			n, err = kind.Delete(bounded, kind.Age, batch)
			return err
		})
		cancel()
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "upkeep failed", slog.String("what", kind.What), slog.String("error", err.Error()))
		}
		if err != nil || n < batch {
			return
		}
	}
}
