package quota

import (
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/edge/internal/plan"
)

// What another replica gives back is free for one that refuses calls.
func TestGivenBackElsewhere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, plans := newFakeStores(), planOf(plan.Limit{Meter: plan.Calls, Period: plan.Day, Amount: 1, Kind: plan.Hard})
		one, _ := start(t, plans, f, f)
		two, _ := start(t, plans, f, f)
		use := UseOf("llm_requests")
		if _, err := one.Take(t.Context(), acme, use); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		if _, err := two.Take(t.Context(), acme, use); err == nil {
			t.Fatal("the second replica admitted a call beyond the limit")
		}
		time.Sleep(time.Second)
		one.GiveBack(acme, use, 1, time.Now())
		time.Sleep(refreshEvery)
		_, _ = two.Take(t.Context(), acme, use) // It asks.
		time.Sleep(refreshEvery)
		if _, err := two.Take(t.Context(), acme, use); err != nil {
			t.Errorf("after the call was given back: %v", err)
		}
	})
}

// Holders that are no longer used take up nothing.
func TestSweep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFakeStores()
		x, _ := start(t, planOf(plan.Limit{Meter: plan.Calls, Period: plan.Day, Amount: 5, Kind: plan.Hard}), f, f)
		for i := range 3 {
			switch i {
			case 1:
				time.Sleep(idleTime / 2)
			case 2:
				time.Sleep(idleTime + 2*sweepEvery)
			}
			synctest.Wait()
			x.mu.RLock()
			known := len(x.holders)
			x.mu.RUnlock()
			if want := i % 2; known != want {
				t.Errorf("%d holders in step %d, want %d", known, i, want)
			}
			if i == 0 {
				take(t, x, f, UseOf("llm_requests"))
			}
		}
	})
}

// What calls cost is known after them. A limit of it holds once it is read, and until the window ends.
func TestSpent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, l := range []struct {
			meter plan.Meter
			unit  int64
		}{{plan.Tokens, 1}, {plan.Cents, PicoPerCent}} {
			f := newFakeStores()
			x, stop := start(t, planOf(plan.Limit{Meter: l.meter, Period: plan.Minute, Amount: 10, Kind: plan.Hard}), f, f)
			spend := func(amount int64) {
				f.mu.Lock()
				defer f.mu.Unlock()
				f.spent = amount
			}
			call := func(name string, use Use, admitted bool) {
				t.Helper()
				if _, err := x.Take(t.Context(), acme, use); (err == nil) != admitted {
					t.Errorf("%s, %s: %v, want admitted %t", l.meter, name, err, admitted)
				}
			}
			time.Sleep(time.Until(time.Now().Truncate(time.Minute).Add(time.Minute)))
			chat, tool, send := UseOf("llm_requests"), UseOf("tool_requests"), UseOf("notifications_sent")
			call("at first", chat, true)
			call("a tool at first", tool, true)
			spend(10*l.unit - 1)
			time.Sleep(refreshEvery)
			call("with something left", chat, true)
			spend(10 * l.unit)
			time.Sleep(2 * staleAfter)
			call("after a pause", chat, false)
			call("a tool after a pause", tool, false)
			call("which costs nothing", send, true)
			spend(0) // The next minute.
			time.Sleep(time.Minute)
			call("in the next minute", chat, true)
			stop()
		}
	})
}

// A replica that starts with a limit used up refuses its first call.
func TestFirstCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, plans := newFakeStores(), planOf(plan.Limit{Meter: plan.Calls, Period: plan.Day, Amount: 3, Kind: plan.Hard})
		for range 3 {
			f.count()
		}
		for name, shared := range map[string]Shared{"with Redis": f, "without": nil} {
			x, stop := start(t, plans, shared, f)
			if take(t, x, f, UseOf("llm_requests")) {
				t.Errorf("%s, the first call was admitted", name)
			}
			stop()
		}
	})
}
