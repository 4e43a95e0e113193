package health

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestCredentialsRest(t *testing.T) {
	limited := func(after time.Duration) *provider.Error {
		return &provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: after}
	}
	cases := []struct {
		name  string
		e     *provider.Error
		cause Cause
		rest  time.Duration
		// elsewhere is the refusal of another model of the vendor with the same key.
		elsewhere Cause
	}{
		{"a rate limit with a hint", limited(7 * time.Second), CauseRateLimited, 7 * time.Second, ""},
		{"… without one", limited(0), CauseRateLimited, time.Second, ""},
		{"… with an endless one", limited(24 * time.Hour), CauseRateLimited, 5 * time.Minute, ""},
		{"a refused key", &provider.Error{Class: apierr.ClassAuth, Status: 401}, CauseKeyRefused, 10 * time.Second, CauseKeyRefused},
		{"a model that is not the key's", &provider.Error{Class: apierr.ClassAuth, Status: 403}, CauseKeyRefused, 10 * time.Second, ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{})
				do(t, m, call(), c.e)
				if diff := cmp.Diff(&Refusal{Cause: c.cause, RetryAfter: c.rest}, do(t, m, call(), nil)); diff != "" {
					t.Errorf("refusal (-want +got):\n%s", diff)
				}
				if m.Admits(call()) {
					t.Error("the refused call would be admitted")
				}
				another := call()
				another.Credential = "key-2"
				if r := do(t, m, another, nil); r != nil {
					t.Errorf("another key: %v", r)
				}
				another = call()
				another.Target.Model = "n"
				var got Cause
				if r := do(t, m, another, nil); r != nil {
					got = r.Cause
				}
				if got != c.elsewhere {
					t.Errorf("another model: refused for %q, want %q", got, c.elsewhere)
				}
				time.Sleep(c.rest)
				if r := do(t, m, call(), nil); r != nil {
					t.Errorf("after its rest: %v", r)
				}
				if phase(m) != Closed {
					t.Error("the circuit moved")
				}
			})
		})
	}
}

// The limits that a vendor reports are respected before the vendor has to refuse.
func TestLimitsArePreShed(t *testing.T) {
	left := func(requests, tokens int64) provider.Limits {
		return provider.Limits{
			Requests: provider.Allowance{Known: true, Remaining: requests, Reset: 3 * time.Second},
			Tokens:   provider.Allowance{Known: true, Remaining: tokens, Reset: 5 * time.Second},
		}
	}
	cases := []struct {
		name   string
		limits provider.Limits
		tokens int
		cause  Cause
		rest   time.Duration
	}{
		{"enough", left(1, 1000), 1000, "", 0},
		{"no requests", left(0, 1000), 1, CauseNoRequests, 3 * time.Second},
		{"too few tokens", left(1, 999), 1000, CauseNoTokens, 5 * time.Second},
		{"no tokens, and the need unknown", left(1, 0), 0, CauseNoTokens, 5 * time.Second},
		{"nothing said", provider.Limits{}, 1000, "", 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := New(Options{})
				p, _ := m.Acquire(t.Context(), call())
				p.Learn(c.limits)
				p.End(t.Context(), Verdict{Outcome: Good})
				asked := call()
				asked.Tokens = c.tokens
				r := do(t, m, asked, nil)
				var want *Refusal
				if c.cause != "" {
					want = &Refusal{Cause: c.cause, RetryAfter: c.rest, Soft: true}
				}
				if diff := cmp.Diff(want, r); diff != "" {
					t.Fatalf("refusal (-want +got):\n%s", diff)
				}
				if r != nil && r.Class() != apierr.ClassRateLimit {
					t.Fatalf("class %s, want %s", r.Class(), apierr.ClassRateLimit)
				}
				asked.Insist = true
				if r := do(t, m, asked, nil); r != nil {
					t.Errorf("insisting: %v", r)
				}
				time.Sleep(5 * time.Second)
				asked.Insist = false
				if r := do(t, m, asked, nil); r != nil {
					t.Errorf("after the reset: %v", r)
				}
			})
		})
	}
}
