package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Retries are at most a tenth of the calls, and a few more at the beginning.
func TestRetryBudget(t *testing.T) {
	m := New(Options{})
	granted := 0
	for range 1000 {
		p, _ := m.Acquire(t.Context(), call())
		p.First()
		p.End(t.Context(), Verdict{Outcome: Good})
		if m.Retry(here, "") {
			granted++
		}
	}
	if granted < 100 || granted > 112 {
		t.Errorf("%d retries of 1000 calls", granted)
	}
	if !m.Retry(provider.Target{Provider: "other", Model: "m"}, "") {
		t.Error("another vendor has no budget")
	}
}

func TestLatency(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		if got := m.Speed(here); got != (Latency{}) {
			t.Errorf("latency %+v of an unknown target", got)
		}
		near := func(got, want time.Duration) bool { return got > want*85/100 && got < want*115/100 }
		take := func(n int, first, rest time.Duration) {
			for range n {
				p, r := m.Acquire(t.Context(), call())
				if r != nil {
					t.Fatal(r)
				}
				time.Sleep(first)
				p.Begin(t.Context())
				time.Sleep(rest)
				p.End(t.Context(), Verdict{Outcome: Good})
			}
		}
		take(20, 100*time.Millisecond, 300*time.Millisecond)
		if got := m.Speed(here); !near(got.FirstToken, 100*time.Millisecond) || !near(got.P50, 400*time.Millisecond) {
			t.Errorf("latency %+v, want 0.1 s and 0.4 s", got)
		}
		take(1, 10*time.Second, 20*time.Second)
		if got := m.Speed(here); !near(got.P50, 400*time.Millisecond) {
			t.Errorf("one slow answer moved the median to %v", got.P50)
		}
		time.Sleep(5 * time.Minute)
		take(3, time.Second, time.Second)
		if got := m.Speed(here); !near(got.FirstToken, time.Second) || !near(got.P50, 2*time.Second) {
			t.Errorf("latency %+v: the past does not fade", got)
		}
		time.Sleep(20 * time.Minute)
		if got := m.Speed(here); got != (Latency{}) {
			t.Errorf("latency %+v after a long silence", got)
		}
		p, _ := m.Acquire(t.Context(), call())
		p.Fail(t.Context(), failure(500), false)
		if got := m.Speed(here); got != (Latency{}) {
			t.Errorf("a failure counts as fast: %+v", got)
		}
	})
}

// Names that callers make up take no entry from those that policies list, and take a bounded number of entries, whether
// the vendor serves them or not.
func TestInventedNamesAreBounded(t *testing.T) {
	for name, e := range map[string]*provider.Error{
		"refused": {Class: apierr.ClassPolicy, Status: 404}, "failing": failure(500), "served": nil,
	} {
		t.Run(name, func(t *testing.T) {
			m := New(Options{})
			names := 100_000
			if e != nil {
				names = 20_000
			}
			for i := range names {
				c := Call{Target: provider.Target{Provider: "acme", Model: fmt.Sprintf("made-up-%dx", i)}, Unlisted: true, Organization: "hostile"}
				if r := do(t, m, c, e); r != nil && e == nil {
					t.Fatal(r.Text())
				}
			}
			most := 1
			if e == nil {
				most += maxUnlisted
			}
			if n := len(*m.targets.Load()); n > most {
				t.Errorf("%d targets, want at most %d", n, most)
			}
			if n := len(m.Snapshot()); n > most {
				t.Errorf("%d circuits, want at most %d", n, most)
			}
			for i := range 200 {
				listed := provider.Target{Provider: "acme", Model: fmt.Sprintf("listed-%dx", i)}
				do(t, m, Call{Target: listed, Organization: "good"}, nil)
				if !m.Known(listed) {
					t.Fatalf("%s has no place of its own", listed)
				}
			}
			if !m.Available(here, "good") {
				t.Error("invented names took a listed model from another organization")
			}
		})
	}
}

// The credentials that a vendor refused are kept up to a bound.
func TestCredentialsAreBounded(t *testing.T) {
	m := New(Options{})
	for i := range 2 * maxCredentials {
		c := call()
		c.Credential = fmt.Sprint(i)
		if r := do(t, m, c, &provider.Error{Class: apierr.ClassAuth, Status: 401}); r != nil {
			t.Fatal(r)
		}
	}
	if n := len(*m.vendors["acme"].credentials.by.Load()); n > maxCredentials {
		t.Errorf("%d credentials", n)
	}
}
