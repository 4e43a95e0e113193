package inference

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// stated are the limits of a test's policy, of credentials by name and of organizations.
type stated struct{ credentials, organizations map[string]quota.Limit }

func credentialSubject(name string) quota.Subject {
	return quota.Subject("credential/a/" + name + "/a-1")
}

func (s stated) CredentialQuota(t provider.Target, _ bool, credential string) (quota.Subject, quota.Limit) {
	limit := s.credentials[credential]
	if t.Provider != "a" || limit == (quota.Limit{}) {
		return "", quota.Limit{}
	}
	return credentialSubject(credential), limit
}

func (s stated) OrganizationQuota(organization string) quota.Limit {
	return s.organizations[organization]
}

// limitedSetup returns an engine whose vendor a has a pool, with limits. Vendor b has none and is asked only where
// substitution is allowed.
func limitedSetup(t *testing.T, vendor *pooledVendor, pool int, limits stated) (*bench, *quota.Books) {
	t.Helper()
	b := pooledSetup(t, poolOf(pool), vendor)
	books := quota.New(quota.Options{Log: b.Log})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error)
	go func() { done <- books.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	b.Quotas, b.Fleet().Limits, b.Fleet().QuotaWait = books, limits, 10*time.Second
	return b, books
}

// lone returns a request that no other model may serve, whose answer has at most so many tokens.
func lone(most int) *Request {
	r := request()
	r.Route.Substitution, r.Chat.MaxTokens = false, most
	return r
}

func perMinute(requests int64) map[string]quota.Limit {
	return map[string]quota.Limit{"k0": {Requests: requests}, "k1": {Requests: requests}}
}

// A credential without room passes requests on to the others of its pool, then to other candidates, and only then they
// wait.
func TestFullCredentials(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{}
		b, _ := limitedSetup(t, vendor, 2, stated{credentials: perMinute(1)})
		for i := range 2 {
			if c, err := b.Chat(t.Context(), lone(10)); err != nil || c.Route.Queued != 0 || c.Route.Attempts != 1 {
				t.Fatalf("request %d: %+v, %v", i, c, err)
			}
		}
		if calls := vendor.names(); len(calls) != 2 || calls[0] == calls[1] {
			t.Errorf("calls by %q", calls)
		}
		if c, err := b.Chat(t.Context(), request()); err != nil || c.Report.Provider != "b" || c.Route.Queued != 0 {
			t.Errorf("with a substitute: %+v, %v", c, err)
		}
		_, err := b.Chat(t.Context(), lone(10))
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindRateLimited || e.RetryAfter < 59*time.Second || e.RetryAfter > 62*time.Second {
			t.Errorf("beyond the longest wait: %v", err)
		}
		b.Fleet().QuotaWait = 2 * time.Minute
		b.Clocks.Total = 3 * time.Minute
		c, err := b.Chat(t.Context(), lone(10))
		if err != nil || c.Route.Queued < 59*time.Second || c.Route.Queued > 62*time.Second || c.Route.Overhead > time.Second {
			t.Errorf("a request that waits: %+v, %v", c, err)
		}
	})
}

// An organization and a key have limits of their own, for each model, which hold nothing else up.
func TestOwnLimits(t *testing.T) {
	for name, c := range map[string]struct {
		limits stated
		change func(*Request)
		text   string
	}{
		"of the organization": {
			stated{organizations: map[string]quota.Limit{"acme": {Tokens: 1500}}},
			func(*Request) {},
			"the organization limit of tokens or requests per minute is used up",
		},
		"of the key": {
			stated{},
			func(r *Request) { r.KeyTerms = keyterm.Terms{Key: "key_1", TokensPerMinute: 1500} },
			"the key limit of tokens or requests per minute is used up",
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vendor := &pooledVendor{usage: &provider.Usage{Input: 100, Output: 900}}
				b, _ := limitedSetup(t, vendor, 1, c.limits)
				ask := func(organization string) error {
					r := lone(900)
					r.Organization = organization
					if organization == "acme" {
						c.change(r)
					}
					_, err := b.Chat(t.Context(), r)
					return err
				}
				if err := ask("acme"); err != nil {
					t.Fatal(err)
				}
				err := ask("acme")
				if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindRateLimited || e.RetryAfter < 59*time.Second || !strings.Contains(e.Text, c.text) {
					t.Errorf("beyond the limit: %v", err)
				}
				if err := ask("other"); err != nil {
					t.Errorf("another organization: %v", err)
				}
				time.Sleep(time.Minute)
				if err := ask("acme"); err != nil {
					t.Errorf("a minute later: %v", err)
				}
			})
		})
	}
}

// A request that no limit can ever hold is refused for good.
func TestTooManyTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b, _ := limitedSetup(t, &pooledVendor{}, 1, stated{credentials: map[string]quota.Limit{"k0": {Tokens: 1000}}})
		_, err := b.Chat(t.Context(), lone(1001))
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindInvalid || e.Reason != ReasonExceedsQuota {
			t.Errorf("%v", err)
		}
		if _, err := b.Chat(t.Context(), lone(0)); err == nil {
			t.Error("an answer without a bound is booked with nothing")
		}
		b.usual.add(provider.Target{Provider: "a", Model: "a-1"}, 300)
		if _, err := b.Chat(t.Context(), lone(0)); err != nil {
			t.Errorf("an answer without a bound, of a model with short answers: %v", err)
		}
	})
}

// A vendor's refusal and what it says is left take the credential out, on the books of all replicas.
func TestVendorsCorrectTheBooks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{errors: map[string]*provider.Error{"k0": {Class: apierr.ClassRateLimit, Status: 429, RetryAfter: 20 * time.Second}}}
		b, books := limitedSetup(t, vendor, 1, stated{credentials: map[string]quota.Limit{"k0": {Tokens: 100_000}}})
		_, err := b.Chat(t.Context(), lone(10))
		if e, ok := errors.AsType[*apierr.Error](err); !ok || e.Kind != apierr.KindRateLimited || e.RetryAfter < 19*time.Second || e.RetryAfter > 21*time.Second {
			t.Errorf("refused: %v", err)
		}
		if load := books.Load(credentialSubject("k0")); load.Free != 0 {
			t.Errorf("after a refusal: %+v", load)
		}
		delete(vendor.errors, "k0")
		vendor.limits = provider.Limits{Tokens: provider.Allowance{Known: true, Remaining: 20_000, Reset: 48 * time.Second}}
		time.Sleep(5 * time.Minute)
		if _, err := b.Chat(t.Context(), lone(10)); err != nil {
			t.Fatal(err)
		}
		if load := books.Load(credentialSubject("k0")); load.Free < 0.15 || load.Free > 0.25 {
			t.Errorf("a fifth is left at the vendor: %+v", load)
		}
	})
}

// The least loaded credential is the one with the smallest part of its limit in use, however large that is.
func TestLeastLoadedByLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{usage: &provider.Usage{Input: 500, Output: 500}}
		limits := map[string]quota.Limit{"k0": {Tokens: 100_000}, "k1": {Tokens: 300_000}}
		b, books := limitedSetup(t, vendor, 2, stated{credentials: limits})
		b.Fleet().Choices["a"] = policy.ChoiceLeastLoaded
		for range 100 {
			if _, err := b.Chat(t.Context(), lone(1000)); err != nil {
				t.Fatal(err)
			}
		}
		small, large := books.Load(credentialSubject("k0")).Free, books.Load(credentialSubject("k1")).Free
		if small < 0.7 || small > 0.8 || large < 0.7 || large > 0.8 {
			t.Errorf("%v and %v are free of the limits, want 0.75 of both", small, large)
		}
	})
}

// A request that waits ends with its caller, and with the gateway's decision to end it.
func TestWaitingRequestsEnd(t *testing.T) {
	suspended := &apierr.Error{Kind: apierr.KindForbidden, Reason: "suspended"}
	for name, cause := range map[string]error{"the caller leaves": nil, "the gateway ends it": suspended} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b, books := limitedSetup(t, &pooledVendor{}, 1, stated{credentials: map[string]quota.Limit{"k0": {Concurrent: 1}}})
				first, err := b.StreamChat(t.Context(), lone(10))
				if err != nil {
					t.Fatal(err)
				}
				defer first.Close()
				ctx, cancel := context.WithCancelCause(t.Context())
				ended := make(chan error, 1)
				began := time.Now()
				go func() {
					_, err := b.Chat(ctx, lone(10))
					ended <- err
				}()
				time.Sleep(2 * time.Second)
				if n := books.Waiting(); n != 1 {
					t.Errorf("%d requests wait, want one", n)
				}
				cancel(cause)
				err = <-ended
				if took := time.Since(began); took != 2*time.Second || books.Waiting() != 0 {
					t.Errorf("it ended after %s, and %d wait", took, books.Waiting())
				}
				if cause != nil && !errors.Is(err, cause) || cause == nil && apierr.From(err).Kind != apierr.KindCanceled {
					t.Errorf("it ended with %v", err)
				}
			})
		})
	}
}

// noQuotas fails a test that asks for a reservation.
type noQuotas struct {
	Quotas
	t *testing.T
}

func (q noQuotas) Reserve(context.Context, quota.Demand) (*quota.Reservation, error) {
	q.t.Error("a request without limits asks for a reservation")
	return nil, errors.New("not expected")
}

func TestNoLimitsNoReservation(t *testing.T) {
	b := pooledSetup(t, poolOf(2), &pooledVendor{})
	b.Quotas = noQuotas{t: t}
	if _, err := b.Chat(t.Context(), request()); err != nil {
		t.Error(err)
	}
}

func TestUsualOutputs(t *testing.T) {
	var u usualOutputs
	at := provider.Target{Provider: "a", Model: "a-1"}
	if got := u.of(at); got != usualAtFirst {
		t.Errorf("at first: %d", got)
	}
	u.add(at, 10_000)
	u.add(at, 20_000)
	if got := u.of(at); got != 20_000 {
		t.Errorf("a longer answer counts at once: %d", got)
	}
	for range 64 {
		u.add(at, 100)
	}
	if got := u.of(at); got < 5000 || got > 10_000 {
		t.Errorf("shorter answers count slowly: %d", got)
	}
	for range 10_000 {
		u.add(at, 1)
	}
	if got := u.of(at); got != leastUsual {
		t.Errorf("the least: %d", got)
	}
	for i := range 2 * maxUsual {
		u.add(provider.Target{Provider: "a", Model: fmt.Sprint(i)}, 1)
	}
	if len(u.by) != maxUsual {
		t.Errorf("%d models are known", len(u.by))
	}
}
