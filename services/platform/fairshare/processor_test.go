package fairshare

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// One organization's work keeps its share of the processors busy, and what would wait too long is refused. Another
// organization's work begins at once.
func TestProcessorsAreShared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &Processors{NewPlaces(4, processorShare)}
		var work sync.WaitGroup
		var mu sync.Mutex
		done, refused := 0, 0
		for range 100 {
			work.Go(func() {
				err := p.Do(t.Context(), "hostile", func() { time.Sleep(time.Second) })
				mu.Lock()
				defer mu.Unlock()
				if e, ok := errors.AsType[*apierr.Error](err); ok && e.Kind == apierr.KindRateLimited && e.RetryAfter > 0 {
					refused++
				} else if err == nil {
					done++
				}
			})
		}
		synctest.Wait()
		begun := time.Now()
		if err := p.Do(t.Context(), "acme", func() {}); err != nil || time.Since(begun) > 0 {
			t.Errorf("another organization's work: %v after %v", err, time.Since(begun))
		}
		work.Wait()
		if done < 4 || done > 6 || done+refused != 100 { // Two run at once; the third pair starts as the wait ends.
			t.Errorf("%d done and %d refused of 100, with two at once and a wait of %v", done, refused, processorWait)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.Do(ctx, "acme", func() { t.Error("work after the caller has gone") }); !errors.Is(err, context.Canceled) {
			t.Errorf("after the caller has gone: %v", err)
		}
	})
}
