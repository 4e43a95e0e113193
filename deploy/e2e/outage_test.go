//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/dev/store"
)

// Whole answers and streams continue while Redis, Postgres or both are down: no request fails, and none waits for a
// missing store.
func TestChatWithoutStores(t *testing.T) {
	t.Parallel()
	h := breakable.get(t)
	for _, gone := range [][]string{{store.Redis}, {store.Postgres}, {store.Redis, store.Postgres}} {
		t.Run(fmt.Sprint(gone), func(t *testing.T) {
			run := h.startChatLoad(t)
			run.waitFor(t, 20)
			for _, name := range gone {
				if err := h.Kill(name); err != nil {
					t.Fatal(err)
				}
			}
			run.waitFor(t, 200)
			if left := run.servedFor(t, 3*time.Second); left == 0 {
				t.Error("nothing was answered while the store was down")
			}
			for _, name := range gone {
				if err := h.Restart(t.Context(), name); err != nil {
					t.Fatal(err)
				}
			}
			run.waitFor(t, 100)
			run.end(t)
		})
	}
}

// chatLoad is callers that repeat chat calls and count the answers.
type chatLoad struct {
	*loadGenerator

	served  atomic.Int64
	failed  atomic.Int64
	slowest atomic.Int64
	first   atomic.Pointer[string]
}

// startChatLoad starts callers of the gateway itself: the edge has stores of its own.
func (h *harness) startChatLoad(t *testing.T) *chatLoad {
	t.Helper()
	run := &chatLoad{loadGenerator: newLoadGenerator(t)}
	client := h.service(stack.Gateway, unique("org"))
	run.start(4, func(caller int) {
		begun := time.Now()
		a, err := client.try(t, http.MethodPost, chatPath, ask("sandbox", "hello", object{"stream": caller%2 == 1}))
		run.note(a, err, time.Since(begun))
	})
	return run
}

func (o *chatLoad) note(a answer, err error, took time.Duration) {
	for slowest := o.slowest.Load(); int64(took) > slowest && !o.slowest.CompareAndSwap(slowest, int64(took)); slowest = o.slowest.Load() {
	}
	if err == nil && a.status == http.StatusOK {
		o.served.Add(1)
		return
	}
	o.failed.Add(1)
	text := fmt.Sprintf("status %d, %v: %s", a.status, err, shorten(a.body))
	o.first.CompareAndSwap(nil, &text)
}

// waitFor waits until that many more calls are served, or one has failed.
func (o *chatLoad) waitFor(t *testing.T, more int64) {
	t.Helper()
	want := o.served.Load() + more
	waitFor(t, waitTimeout, "requests that are served", func() error {
		if served := o.served.Load(); served < want && o.failed.Load() == 0 {
			return fmt.Errorf("%d of %d", served, want)
		}
		return nil
	})
}

// servedFor returns how many calls are served within d.
func (o *chatLoad) servedFor(t *testing.T, d time.Duration) int64 {
	t.Helper()
	before := o.served.Load()
	select {
	case <-time.After(d):
	case <-t.Context().Done():
	}
	return o.served.Load() - before
}

func (o *chatLoad) end(t *testing.T) {
	t.Helper()
	o.stop()
	if n := o.failed.Load(); n != 0 {
		t.Errorf("%d of %d requests failed, the first with %s", n, n+o.served.Load(), *o.first.Load())
	}
	t.Logf("%d served, the slowest in %s", o.served.Load(), time.Duration(o.slowest.Load()).Round(time.Millisecond))
}
