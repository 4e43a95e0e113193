package quota

import (
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/edge/internal/plan"
)

// A customer counts as refused from the first of the calls that were all refused, until one is admitted or it gives up.
func TestLongestRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStores()
		x, stop := start(t, planOf(plan.Limit{Meter: plan.Calls, Period: plan.Day, Amount: 1, Kind: plan.Hard}), f, f)
		defer stop()
		refused := func(want time.Duration) {
			t.Helper()
			if got := x.LongestRefused(time.Now()).Truncate(time.Minute); got != want {
				t.Errorf("refused for %v, want %v", got, want)
			}
		}
		if !take(t, x, f, UseOf("llm_requests")) {
			t.Fatal("the first call is refused")
		}
		refused(0)
		for range 11 {
			if take(t, x, f, UseOf("llm_requests")) {
				t.Fatal("a call beyond the limit is admitted")
			}
			time.Sleep(time.Minute)
		}
		refused(11 * time.Minute)
		time.Sleep(stillCalls)
		refused(0)
		time.Sleep(24 * time.Hour)
		if !take(t, x, f, UseOf("llm_requests")) {
			t.Fatal("the first call of a day is refused")
		}
		refused(0)
	})
}

// A sweep does not wait for a call that has locked its key and is about to find its organization.
func TestSweepPassesCalls(t *testing.T) {
	f := newFakeStores()
	x := New(planOf(), "", f, f)
	c := Caller{Key: "k", Organization: "o"}
	h := x.lock(c, &plan.Plan{}, true)
	swept := make(chan struct{})
	go func() {
		x.sweep(time.Now().Add(time.Hour))
		close(swept)
	}()
	select {
	case <-swept:
	case <-time.After(10 * time.Second):
		t.Error("the sweep waits for the call")
	}
	unlock(x.lock(c, &plan.Plan{}, false))
	unlock(h)
}
