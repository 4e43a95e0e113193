package lifecycle_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/lifecycle"
)

// The work is done at each tick and wake-up. A lasting failure is logged twice: where it begins and where it ends.
func TestRepeat(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		wake := make(chan struct{})
		done := 0
		r := lifecycle.Repeat{
			Every: time.Second, Wake: wake, Log: slog.New(slog.NewTextHandler(&log, nil)), Name: "it",
			Do: func(context.Context) error {
				if done++; done >= 3 && done <= 5 {
					return errors.New("away")
				}
				return nil
			},
		}
		ctx, cancel := context.WithCancel(t.Context())
		var group sync.WaitGroup
		group.Go(func() { _ = r.Run(ctx) })
		wake <- struct{}{}
		time.Sleep(6*time.Second + time.Second/2)
		cancel()
		group.Wait()
		if done != 7 {
			t.Errorf("done %d times, want 7", done)
		}
		text := log.String()
		for _, line := range []string{`msg="background work is failing" work=it`, `msg="background work recovered" work=it`} {
			if n := strings.Count(text, line); n != 1 {
				t.Errorf("%d lines of %s, want 1:\n%s", n, line, text)
			}
		}
		if !strings.Contains(text, "error=away") {
			t.Errorf("the log lacks the error:\n%s", text)
		}
	})
}

// Work that panics counts as failed and is repeated.
func TestRepeatGoesOnAfterAPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		done := 0
		r := lifecycle.Repeat{
			Every: time.Second, Log: slog.New(slog.NewTextHandler(&log, nil)), Name: "it",
			Do: func(context.Context) error {
				if done++; done == 1 {
					panic("bug")
				}
				return nil
			},
		}
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second+time.Second/2)
		defer cancel()
		if err := r.Run(ctx); err != nil {
			t.Error(err)
		}
		if done != 2 {
			t.Errorf("done %d times, want twice", done)
		}
		if text := log.String(); !strings.Contains(text, "panic: bug") || !strings.Contains(text, "background work recovered") {
			t.Errorf("the log doesn't say it: %s", text)
		}
	})
}

func TestUntilDone(t *testing.T) {
	failure := errors.New("away")
	for name, c := range map[string]struct {
		done  []int
		err   error
		calls int
	}{
		"until less is left":  {[]int{10, 10, 3}, nil, 3},
		"nothing to do":       {[]int{0}, nil, 1},
		"until a step fails":  {[]int{10, 10}, failure, 3},
		"as much as a step's": {[]int{10, 0}, nil, 2},
	} {
		calls := 0
		err := lifecycle.UntilDone(t.Context(), 10, time.Minute, func(ctx context.Context, limit int) (int, error) {
			if _, bounded := ctx.Deadline(); !bounded || limit != 10 {
				t.Errorf("%s: bounded %t, limit %d", name, bounded, limit)
			}
			calls++
			if calls > len(c.done) {
				return 0, c.err
			}
			return c.done[calls-1], nil
		})
		if !errors.Is(err, c.err) || calls != c.calls {
			t.Errorf("%s: %v after %d steps, want %v after %d", name, err, calls, c.err, c.calls)
		}
	}
}
