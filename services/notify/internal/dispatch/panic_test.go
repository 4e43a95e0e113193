package dispatch_test

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/notify/internal/channel"
	"switchyard.dev/services/notify/internal/dispatch"
	"switchyard.dev/services/notify/internal/dispatch/queuetest"
)

// breaks opens nothing: it panics.
type breaks struct{}

func (breaks) Open([]byte, string) ([]byte, error) { panic("boom") }

// A panic beside the transport uses up one attempt, is logged once, and the
// recipient fails when it has had as many as it may.
func TestPanicOfAnAttempt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(channel.Delivered(200))
		var log strings.Builder
		w.o.Opener, w.o.Log = breaks{}, slog.New(slog.NewTextHandler(&log, nil))
		id := w.queue.Add(channel.Slack, "", time.Hour)
		w.run(t, 10*time.Minute)
		w.wantLog(t, id, "failed", "1 unknown internal", "2 unknown internal", "3 unknown internal", "4 unknown internal")
		if n := strings.Count(log.String(), "an attempt panicked"); n != 4 {
			t.Errorf("logged %d times, want once for each of 4 attempts", n)
		}
	})
}

// fragile is a queue that refuses results with a detail and panics at its first claims.
type fragile struct {
	*queuetest.Memory

	refuse func() error
	claims atomic.Int32
}

func (s *fragile) Take(ctx context.Context, c dispatch.Claim) ([]dispatch.Leased, error) {
	if s.claims.Add(1) <= 3 {
		panic("boom")
	}
	return s.Memory.Take(ctx, c)
}

func (s *fragile) Settle(ctx context.Context, name channel.Name, results []dispatch.Result) ([]bool, error) {
	for _, r := range results {
		for _, try := range r.Tries {
			if try.Outcome.Detail != "" {
				return nil, s.refuse()
			}
		}
	}
	return s.Memory.Settle(ctx, name, results)
}

// Claims that panic are made again. What the store can't hold of a result, or
// panics at, is left out, so that the attempt counts.
func TestPanicOfTheStore(t *testing.T) {
	for name, refuse := range map[string]func() error{
		"rejected": func() error { return fmt.Errorf("bad value: %w", dispatch.ErrRejected) },
		"panics":   func() error { panic("boom") },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(channel.Failed(channel.ClassClient, 400, "poison"), channel.Delivered(200))
				w.o.InFlight = 1
				w.o.Store = &fragile{Memory: w.queue, refuse: refuse}
				var ids []uuid.UUID
				for range 2 {
					ids = append(ids, w.queue.Add(channel.Slack, "", time.Hour))
				}
				w.run(t, time.Minute)
				w.wantLog(t, ids[0], "failed", "1 permanent http_4xx")
				w.wantLog(t, ids[1], "delivered", "1 ok ")
			})
		})
	}
}
