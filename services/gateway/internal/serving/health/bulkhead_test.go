package health

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestBulkhead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Concurrency: 4})
		var held []Permit
		for range 4 {
			p, r := m.Acquire(t.Context(), call())
			if r != nil {
				t.Fatal(r)
			}
			held = append(held, p)
		}
		start := time.Now()
		if _, r := m.Acquire(t.Context(), call()); r == nil || r.Cause != CauseFull || time.Since(start) != 250*time.Millisecond {
			t.Errorf("%+v after %v, want a short wait and a refusal", r, time.Since(start))
		}
		// One call may wait; another one is refused at once.
		got := make(chan *Refusal, 1)
		var waited Permit
		go func() {
			var r *Refusal
			waited, r = m.Acquire(t.Context(), call())
			got <- r
		}()
		synctest.Wait()
		start = time.Now()
		if _, r := m.Acquire(t.Context(), call()); r == nil || time.Since(start) != 0 {
			t.Errorf("%+v after %v, want a refusal at once", r, time.Since(start))
		}
		held[0].End(t.Context(), Verdict{})
		if r := <-got; r != nil {
			t.Errorf("the one that waited: %v", r)
		}
		held[0] = waited
		// Another vendor is not affected; a caller who leaves stops waiting.
		if r := do(t, m, Call{Target: provider.Target{Provider: "other", Model: "m"}}, nil); r != nil {
			t.Error(r)
		}
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		start = time.Now()
		if _, r := m.Acquire(gone, call()); r == nil || time.Since(start) != 0 {
			t.Errorf("a caller who left: %v after %v", r, time.Since(start))
		}
		if s := m.Snapshot()[0]; s.InFlight != 4 || s.Limit != 4 {
			t.Errorf("snapshot %+v", s)
		}
		for i := range held {
			held[i].End(t.Context(), Verdict{})
		}
		if s := m.Snapshot()[0]; s.InFlight != 0 {
			t.Errorf("%d in flight after all", s.InFlight)
		}
	})
}

// A probe that the bulkhead refuses releases its grant.
func TestBulkheadGivesTheProbeBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Concurrency: 1})
		for range 5 {
			do(t, m, call(), failure(500))
		}
		time.Sleep(7 * time.Second)
		elsewhere := call()
		elsewhere.Target.Model = "n"
		hog, _ := m.Acquire(t.Context(), elsewhere)
		if _, r := m.Acquire(t.Context(), call()); r == nil || r.Cause != CauseFull {
			t.Fatal(r)
		}
		hog.End(t.Context(), Verdict{})
		if r := do(t, m, call(), nil); r != nil {
			t.Errorf("the probe's turn is lost: %v", r)
		}
	})
}
