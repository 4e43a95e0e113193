package poll_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/poll"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var logs bytes.Buffer
		var away atomic.Bool
		var reads atomic.Int64
		loop := poll.New("keys", func(context.Context) error {
			reads.Add(1)
			if away.Load() {
				return errors.New("away")
			}
			return nil
		}, slog.New(slog.NewTextHandler(&logs, nil)))
		ctx, stop := context.WithCancel(t.Context())
		var running sync.WaitGroup
		running.Go(func() { _ = loop.Run(ctx) })
		pass := func(what string, times int, want int64) {
			time.Sleep(time.Duration(times) * poll.Every)
			synctest.Wait()
			if got := reads.Load(); got != want {
				t.Errorf("%s: %d reads, want %d", what, got, want)
			}
		}
		pass("at intervals", 3, 3)
		loop.Refresh(t.Context())
		pass("at once for a caller", 0, 4)
		away.Store(true)
		pass("over failures", 3, 7)
		away.Store(false)
		pass("after them", 2, 9)
		stop()
		running.Wait()
		if text := logs.String(); strings.Count(text, "is failing") != 1 || strings.Count(text, "recovered") != 1 {
			t.Errorf("logs:\n%s", text)
		}
		begun := time.Now()
		if loop.Refresh(t.Context()); time.Since(begun) != poll.RefreshTime {
			t.Errorf("without Run, Refresh took %v, want %v", time.Since(begun), poll.RefreshTime)
		}
	})
}
