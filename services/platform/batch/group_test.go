package batch_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/panics"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// One flush takes a second; what comes meanwhile goes together, up to the limit.
func TestCallsShareFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sizes []int
		g := batch.NewGroup(batch.Options{Size: 4, Most: 4}, func(_ context.Context, items []int) ([]int, error) {
			sizes = append(sizes, len(items))
			time.Sleep(time.Second)
			doubled := make([]int, len(items))
			for i, n := range items {
				doubled[i] = 2 * n
			}
			return doubled, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = g.Run(ctx, 1) }()
		do := func(n int) {
			if got, err := g.Do(t.Context(), n); err != nil || got != 2*n {
				t.Errorf("Do(%d) = %d, %v", n, got, err)
			}
		}
		var calls sync.WaitGroup
		calls.Go(func() { do(0) })
		synctest.Wait()
		for n := range 6 {
			calls.Go(func() { do(n) })
		}
		calls.Wait()
		if !slices.Equal(sizes, []int{1, 4, 2}) {
			t.Errorf("flushes of %v, want 1, 4, 2", sizes)
		}
		cancel()
	})
}

func TestErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		failure := errors.New("failure")
		g := batch.NewGroup(batch.Options{Size: 4, Most: 4}, func(_ context.Context, items []int) ([]int, error) {
			if items[0] < 0 {
				return nil, failure
			}
			time.Sleep(time.Minute)
			return items, nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() { _ = g.Run(ctx, 2); close(ended) }()
		if _, err := g.Do(t.Context(), -1); !errors.Is(err, failure) {
			t.Errorf("err = %v, want the flush's", err)
		}
		hurry, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		if _, err := g.Do(hurry, 1); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("err = %v, want the caller's deadline", err)
		}
		var last sync.WaitGroup
		last.Go(func() {
			if got, err := g.Do(t.Context(), 7); err != nil || got != 7 {
				t.Errorf("a flush under way when the group ended gave %d, %v", got, err)
			}
		})
		synctest.Wait()
		cancel()
		last.Wait()
		<-ended
		if _, err := g.Do(t.Context(), 1); !errors.Is(err, batch.ErrStopped) {
			t.Errorf("err = %v, want ErrStopped", err)
		}
	})
}

// A flush that panics, or gives too few results, fails its own calls; the next
// flush is made as ever.
func TestFlushThatPanics(t *testing.T) {
	g := batch.NewGroup(batch.Options{Size: 4, Most: 4}, func(_ context.Context, items []int) ([]int, error) {
		switch items[0] {
		case 0:
			panic("boom")
		case 1:
			return nil, nil
		}
		return items, nil
	})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { _ = g.Run(ctx, 1) })
	if _, err := g.Do(t.Context(), 0); !errors.Is(err, panics.Err) {
		t.Errorf("a flush that panics: %v, want ErrPanic", err)
	}
	if _, err := g.Do(t.Context(), 1); err == nil {
		t.Error("a flush without results: no error")
	}
	if got, err := g.Do(t.Context(), 2); err != nil || got != 2 {
		t.Errorf("the flush after it gives %d, %v, want 2", got, err)
	}
	cancel()
	running.Wait()
}
