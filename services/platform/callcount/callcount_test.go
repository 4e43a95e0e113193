package callcount_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"switchyard.dev/services/platform/callcount"
)

// A call's count is taken once, however many goroutines try at the same time.
func TestTakeOnce(t *testing.T) {
	at := time.Date(2026, 11, 30, 10, 0, 0, 0, time.UTC)
	call := callcount.New(callcount.Count{Organization: "acme", Key: "key_1", Metric: "events", User: "ann"})
	ctx := callcount.With(t.Context(), call)
	var taken atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			count, ok := callcount.Take(ctx, at)
			if !ok {
				return
			}
			taken.Add(1)
			if count.ID == uuid.Nil || count.Organization != "acme" || count.Metric != "events" || count.User != "ann" || !count.At.Equal(at) {
				t.Errorf("count %+v", count)
			}
		})
	}
	group.Wait()
	if taken.Load() != 1 {
		t.Errorf("taken %d times", taken.Load())
	}
}

// A count whose record was not stored can be taken again.
func TestPutBack(t *testing.T) {
	ctx := callcount.With(t.Context(), callcount.New(callcount.Count{Metric: "events"}))
	for range 2 {
		if _, ok := callcount.Take(ctx, time.Now()); !ok {
			t.Error("nothing to take")
		}
		callcount.PutBack(ctx)
	}
	callcount.PutBack(t.Context())
}

// A call that counts nothing has nothing to take.
func TestTakeNothing(t *testing.T) {
	for name, ctx := range map[string]context.Context{
		"no call": t.Context(), "none on purpose": callcount.With(callcount.With(t.Context(), callcount.New(callcount.Count{Metric: "events"})), nil),
	} {
		if count, ok := callcount.Take(ctx, time.Now()); ok {
			t.Errorf("%s: took %+v", name, count)
		}
	}
}
