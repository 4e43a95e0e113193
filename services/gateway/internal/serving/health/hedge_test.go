package health

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// measure makes calls that take a while each, as streams or whole.
func measure(t *testing.T, m *Monitor, n int, streams bool, took time.Duration) {
	t.Helper()
	for range n {
		p, r := m.Acquire(t.Context(), call())
		if r != nil {
			t.Fatal(r.Text())
		}
		time.Sleep(took)
		if streams {
			p.Begin(t.Context())
		}
		p.End(t.Context(), Verdict{Outcome: Good})
	}
}

// Slow is above the usual time, whatever its place in a bucket, and below the slow ones; it is unknown until there are
// enough calls to tell so small a share.
func TestSlow(t *testing.T) {
	for _, usual := range []time.Duration{3 * time.Millisecond, 40 * time.Millisecond, 50 * time.Millisecond, 777 * time.Millisecond, 4 * time.Second} {
		for _, streams := range []bool{false, true} {
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{})
				if got := m.Slow(here, streams, 0.2); got != 0 {
					t.Errorf("%s before the first call", got)
				}
				measure(t, m, 4, streams, usual)
				if got := m.Slow(here, streams, 0.2); got != 0 {
					t.Errorf("%s after four calls", got)
				}
				measure(t, m, 20, streams, usual)
				measure(t, m, 1, streams, 20*usual)
				got := m.Slow(here, streams, 0.2)
				if got <= usual || got > usual*13/10+time.Millisecond {
					t.Errorf("streams %t: slow is above %s, usual are %s", streams, got, usual)
				}
				if other := m.Slow(here, !streams, 0.2); streams && other < got {
					t.Errorf("whole answers: %s", other)
				}
			})
		}
	}
}

// A call that lost says that it took at least so long, where that tells something: the quantile does not sink although
// every slow call is ended early.
func TestLose(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		measure(t, m, 100, true, 50*time.Millisecond)
		before := m.Slow(here, true, 0.02)
		for range 20 { // One call in five.
			p, _ := m.Acquire(t.Context(), call())
			time.Sleep(before + time.Millisecond)
			p.Lose(t.Context(), true)
			measure(t, m, 4, true, 50*time.Millisecond)
		}
		if after := m.Slow(here, true, 0.02); after <= before {
			t.Errorf("%s after slow calls were ended, %s before", after, before)
		}
		usual := m.Speed(here).FirstToken
		for range 1000 { // Calls that were ended early for no fault of theirs.
			p, _ := m.Acquire(t.Context(), call())
			time.Sleep(5 * time.Millisecond)
			p.Lose(t.Context(), true)
		}
		if got := m.Speed(here).FirstToken; got != usual {
			t.Errorf("the usual wait became %s, was %s", got, usual)
		}
		if s := m.Snapshot(); len(s) != 1 || s[0].Phase != Closed {
			t.Errorf("circuits %+v", s)
		}
	})
}

// A spare call needs a closed circuit and a quarter of the bulkhead, and never probes.
func TestSpareCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{Concurrency: 8})
		spare := call()
		spare.Spare = true
		if !m.Spares(provider.Target{Provider: "unknown"}, "") || !m.Spares(here, "") {
			t.Error("a vendor without calls has no room")
		}
		var held []Permit
		for range 6 {
			p, r := m.Acquire(t.Context(), spare)
			if r != nil {
				t.Fatalf("after %d calls: %s", len(held), r.Text())
			}
			held = append(held, p)
		}
		if _, r := m.Acquire(t.Context(), spare); r == nil || r.Cause != CauseFull || m.Spares(here, "") {
			t.Errorf("a spare call at three quarters: %+v", r)
		}
		for _, p := range held {
			p.End(t.Context(), Verdict{})
		}
		for range 5 {
			do(t, m, call(), failure(500))
		}
		if phase(m) != Open {
			t.Fatal("the circuit is not open")
		}
		time.Sleep(10 * time.Second) // A probe is due.
		if _, r := m.Acquire(t.Context(), spare); r == nil || m.Spares(here, "") || phase(m) != Open {
			t.Errorf("a spare call at an open circuit: %+v, %v", r, phase(m))
		}
		if r := do(t, m, call(), nil); r != nil || phase(m) != Closed {
			t.Errorf("the probe after it: %+v", r)
		}
		if p, r := m.Acquire(context.Background(), spare); r != nil {
			t.Error(r.Text())
		} else {
			p.End(t.Context(), Verdict{})
		}
	})
}
