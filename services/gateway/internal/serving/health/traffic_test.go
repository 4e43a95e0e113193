package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestFigures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		target := provider.Target{Provider: "p", Model: "m"}
		call := func(byok bool, end func(p *Permit)) {
			t.Helper()
			permit, refused := m.Acquire(t.Context(), Call{Target: target, Byok: byok})
			if refused != nil {
				t.Fatal(refused.Text())
			}
			end(&permit)
		}
		good := func(p *Permit) { p.End(t.Context(), Verdict{Outcome: Good}) }
		bad := func(p *Permit) {
			p.Fail(t.Context(), &provider.Error{Class: apierr.ClassServerError, Status: 503}, false)
		}
		figures := func() Figures { return m.Figures()[0] }
		for range 3 {
			call(false, good)
		}
		call(false, bad)
		call(false, func(p *Permit) { p.End(t.Context(), Verdict{}) }) // It is not counted.
		call(false, func(p *Permit) { p.Fail(t.Context(), &provider.Error{Class: apierr.ClassPolicy, Status: 400}, false) })
		call(true, bad)
		call(false, func(p *Permit) { // A stream is one call.
			p.Begin(t.Context())
			good(p)
		})
		f := figures()
		want := Figures{
			Target: target, Circuit: f.Circuit, Calls: 6, Failures: 1, RecentCalls: 6, RecentFailures: 1, LastClass: apierr.ClassServerError,
		}
		if diff := cmp.Diff(want, f, cmpopts.IgnoreFields(Figures{}, "LastGood", "LastBad", "P50", "P99", "FirstToken")); diff != "" {
			t.Errorf("figures (-want +got):\n%s", diff)
		}
		if f.LastGood.IsZero() || f.LastBad.IsZero() {
			t.Errorf("last served at %v, last failed at %v, want both", f.LastGood, f.LastBad)
		}
		time.Sleep(RecentWindow)
		if f := figures(); f.Calls != 6 || f.RecentCalls != 0 {
			t.Errorf("after a minute: %+v", f)
		}
		call(false, bad)
		if f := figures(); f.Calls != 7 || f.RecentCalls != 1 || f.RecentFailures != 1 {
			t.Errorf("%+v", f)
		}
		time.Sleep(TrafficWindow)
		if f := figures(); f.Calls != 0 || f.Failures != 0 || f.LastBad.IsZero() {
			t.Errorf("after five minutes: %+v", f)
		}
		call(false, good) // In a slot that was used before.
		if f := figures(); f.Calls != 1 {
			t.Errorf("%+v", f)
		}
	})
}

// A full count stays full and does not overflow into its neighbour.
func TestTrafficIsBounded(t *testing.T) {
	traffic := newTraffic()
	for range countMask + 10 {
		traffic.count(Verdict{Outcome: Good}, 0, time.Time{})
	}
	if calls, failures := traffic.sum(0, TrafficWindow); calls != countMask || failures != 0 {
		t.Errorf("%d calls, %d failures", calls, failures)
	}
}

func TestQuantile(t *testing.T) {
	var s speeds
	at := time.Now()
	for i := range 100 {
		s.add(callerOf(fmt.Sprint(i%3)), time.Duration(i+1)*10*time.Millisecond, at)
	}
	for share, want := range map[float32]time.Duration{0.5: 500 * time.Millisecond, 0.99: 990 * time.Millisecond} {
		if got := s.quantile(at, share); got < want*7/8 || got > want*9/8 {
			t.Errorf("%v: %s, want about %s", share, got, want)
		}
	}
}

func TestBulkheadCountsWhoIsTurnedAway(t *testing.T) {
	m := New(Options{Concurrency: 1, QueueTime: time.Millisecond})
	target := provider.Target{Provider: "p", Model: "m"}
	if got := m.Bulkhead("p"); got != (Bulkhead{Limit: 1}) {
		t.Errorf("%+v", got)
	}
	permit, _ := m.Acquire(t.Context(), Call{Target: target})
	if _, refused := m.Acquire(t.Context(), Call{Target: target}); refused == nil || refused.Cause != CauseFull {
		t.Fatal("the bulkhead is not full")
	}
	if got := m.Bulkhead("p"); got.InFlight != 1 || got.Rejected != 1 {
		t.Errorf("%+v", got)
	}
	permit.End(t.Context(), Verdict{Outcome: Good})
}
