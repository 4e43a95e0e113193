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
		p := newProcessors(4)
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

// An organization that has used its second waits until it is within a tenth of the processors, and its work gets its turns
// one after the other. Other organizations' work begins at once, and so does its own after a pause.
func TestOrganizationUsesProcessorsWithinItsRate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessors(4)
		const callers, took, measured = 20, 2 * time.Millisecond, 10 * time.Second
		run := func(organization string, during time.Duration) (used time.Duration) {
			var mu sync.Mutex
			var work sync.WaitGroup
			end := time.Now().Add(during)
			for range callers {
				work.Go(func() {
					for time.Now().Before(end) {
						if err := p.Do(t.Context(), organization, func() { time.Sleep(took) }); err != nil {
							t.Error(err)
						}
						mu.Lock()
						used += took
						mu.Unlock()
					}
				})
			}
			work.Wait()
			return used
		}
		first, later := run("hostile", processorBurst/2), run("hostile", measured)
		if first < processorBurst || first > processorBurst*5/4 {
			t.Errorf("used %v in advance, want about %v", first, processorBurst)
		}
		if most := 4 * measured * processorRate / 100; later < most*9/10 || later > most*11/10 {
			t.Errorf("used %v of 4 processors in %v after that, want about %v", later, measured, most)
		}
		begun := time.Now()
		if err := p.Do(t.Context(), "acme", func() {}); err != nil || time.Since(begun) > 0 {
			t.Errorf("another organization's work: %v after %v", err, time.Since(begun))
		}
		time.Sleep(processorBurst)
		if used := run("hostile", took); used < callers*took {
			t.Errorf("used %v after a pause, want %v", used, callers*took)
		}
	})
}

// Work beyond the organization's rate is refused when its turn is too far away, and ends with its caller.
func TestProcessorsRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newProcessors(2)
		var first sync.WaitGroup
		for range 4 { // None has spent anything when the others begin, so they leave a debt of three seconds.
			first.Go(func() {
				if err := p.Do(t.Context(), "hostile", func() { time.Sleep(processorBurst) }); err != nil {
					t.Error(err)
				}
			})
		}
		first.Wait()
		begun := time.Now()
		err := p.Do(t.Context(), "hostile", func() { t.Error("work ran though its turn was too far away") })
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindRateLimited || e.RetryAfter <= 0 || time.Since(begun) != processorWait {
			t.Errorf("%v after %v, want 429 with Retry-After after %v", err, time.Since(begun), processorWait)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		if err := p.Do(ctx, "hostile", func() { t.Error("work ran after its caller had gone") }); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the caller has gone: %v", err)
		}
	})
}
