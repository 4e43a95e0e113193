package health

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// One organization's calls can't fill a provider's bulkhead.
func TestBulkheadShare(t *testing.T) {
	m := New(Options{Concurrency: 8, QueueTime: time.Millisecond})
	var held []Permit
	for range 8 {
		if p, r := m.Acquire(t.Context(), of("hostile")); r == nil {
			held = append(held, p)
		} else if r.Cause != CauseShare {
			t.Errorf("refused for %s", r.Cause)
		}
	}
	if len(held) != 6 {
		t.Errorf("one organization has %d of 8 calls under way, want 6", len(held))
	}
	if r := do(t, m, of("good"), nil); r != nil {
		t.Errorf("another organization: %s", r.Text())
	}
	for i := range held {
		held[i].End(t.Context(), Verdict{})
	}
	if r := do(t, m, of("hostile"), nil); r != nil {
		t.Errorf("once its calls have ended: %s", r.Text())
	}
}

// One organization's retries do not use up those of others.
func TestRetryShare(t *testing.T) {
	m := New(Options{})
	for range 1000 {
		m.Retry(here, "hostile")
	}
	left := 0
	for i := range 50 {
		if m.Retry(here, fmt.Sprint("org-", i)) {
			left++
		}
	}
	if left < 30 {
		t.Errorf("%d of 50 other organizations may retry", left)
	}
}

// One organization's slow calls don't make a target slow for others.
func TestLatencyShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		take := func(organization string, n int, wait time.Duration) {
			for range n {
				p, r := m.Acquire(t.Context(), of(organization))
				if r != nil {
					t.Fatal(r)
				}
				time.Sleep(wait)
				p.Begin(t.Context())
				p.End(t.Context(), Verdict{Outcome: Good})
			}
		}
		for i := range 4 {
			take(fmt.Sprint("customer-", i), 3, 100*time.Millisecond)
		}
		take("hostile", 20, 2*time.Second)
		if wait, known := m.Latency(here); !known || wait > 200*time.Millisecond {
			t.Errorf("the usual wait is %s, %t; want a tenth of a second", wait, known)
		}
	})
}

// A refusal that one organization's call met with a credential holds for that one, until another organization meets one
// too.
func TestCredentialRestsAreShared(t *testing.T) {
	limited := &provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: 5 * time.Minute}
	brief := &provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: 10 * time.Second}
	synctest.Test(t, func(t *testing.T) {
		m := New(Options{})
		do(t, m, of("hostile"), limited)
		if r := do(t, m, of("hostile"), nil); r == nil || r.Cause != CauseRateLimited {
			t.Errorf("after a refusal with Retry-After: %+v", r)
		}
		if r := do(t, m, of("good"), brief); r != nil {
			t.Errorf("another organization: %s", r.Text())
		}
		if r := do(t, m, of("third"), nil); r == nil || r.RetryAfter > 10*time.Second {
			t.Errorf("a third organization, after the refusals of two: %+v", r)
		}
		time.Sleep(11 * time.Second)
		if r := do(t, m, of("third"), nil); r != nil {
			t.Errorf("a third organization, after the shorter of both waits: %s", r.Text())
		}
		if r := do(t, m, of("hostile"), nil); r == nil {
			t.Error("the organization with the longer Retry-After does not wait")
		}
	})
}
