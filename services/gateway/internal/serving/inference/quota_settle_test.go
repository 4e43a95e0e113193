package inference

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/hedge"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// However a call ends, it leaves nothing in flight, and the books hold what was billed.
func TestReservationsAreSettled(t *testing.T) {
	limits := stated{
		credentials:   map[string]quota.Limit{"k0": {Tokens: 100_000, Concurrent: 5}, "k1": {Tokens: 100_000, Concurrent: 5}},
		organizations: map[string]quota.Limit{"acme": {Tokens: 100_000, Concurrent: 5}},
	}
	const usage = 1000
	whole := func(ctx context.Context, b *bench) error {
		_, err := b.Chat(ctx, lone(1000))
		return err
	}
	for name, c := range map[string]struct {
		errors map[string]*provider.Error
		call   func(context.Context, *bench) error
		serves bool
		billed int64
	}{
		"whole":    {nil, whole, true, usage},
		"streamed": {nil, stream, true, usage},
		"left": {nil, func(ctx context.Context, b *bench) error {
			ctx, leave := context.WithCancel(ctx)
			leave()
			return whole(ctx, b)
		}, false, 0},
		"refused by the vendor": {everyKey(&provider.Error{Class: apierr.ClassPolicy, Status: 400}), whole, false, 0},
		"failed":                {everyKey(&provider.Error{Class: apierr.ClassServerError, Status: 500}), whole, false, 0},
		"failed over": {everyKey(&provider.Error{Class: apierr.ClassServerError, Status: 500}), func(ctx context.Context, b *bench) error {
			_, err := b.Chat(ctx, request())
			return err
		}, true, good.Usage.Prompt() + good.Usage.Completion()},
		"rate limited": {everyKey(&provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: time.Minute}), whole, false, 0},
		"another key":  {map[string]*provider.Error{"k0": refusal401()}, whole, true, usage},
		"a panic": {nil, func(ctx context.Context, b *bench) (err error) {
			b.Fleet().Prices = nil
			defer func() { err = fmt.Errorf("panic: %v", recover()) }()
			return whole(ctx, b)
		}, false, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				vendor := &pooledVendor{errors: c.errors, usage: &provider.Usage{Input: 200, Output: usage - 200}}
				b, books := limitedSetup(t, vendor, 2, limits)
				if err := c.call(t.Context(), b); (err == nil) != c.serves {
					t.Errorf("the call returns %v", err)
				}
				time.Sleep(2 * time.Second) // an exchange that began before the call ended shows it as in flight until the next
				for _, s := range []quota.Subject{credentialSubject("k0"), credentialSubject("k1"), "organization/acme/a-1"} {
					if load := books.Load(s); load.InFlight != 0 {
						t.Errorf("%s has %+v in flight", s, load)
					}
				}
				if got, want := books.Load("organization/acme/a-1").Free, 1-float64(c.billed)/100_000; got != want {
					t.Errorf("the organization has %v free, want %v", got, want)
				}
			})
		})
	}
}

func everyKey(e *provider.Error) map[string]*provider.Error {
	return map[string]*provider.Error{"k0": e, "k1": e}
}

func stream(ctx context.Context, b *bench) error {
	s, err := b.StreamChat(ctx, lone(1000))
	if err == nil {
		_, err = read(s)
	}
	return err
}

// Both calls of a hedged request are booked, and settled by what each was billed.
func TestHedgesAreBooked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{usage: &provider.Usage{Input: 10, Output: 10}, slow: map[string]time.Duration{"k0": 3 * time.Second}}
		b, books := limitedSetup(t, vendor, 2, stated{credentials: map[string]quota.Limit{"k0": {Tokens: 100_000}, "k1": {Tokens: 100_000}}})
		b.Fleet().Hedge = func(policy.Goal) policy.Hedge {
			return policy.Hedge{BudgetPercent: 20, After: 100 * time.Millisecond, Goal: policy.GoalQuality}
		}
		b.hedges.quality.Earn(hedge.Worth(1e12, 0), 0, 20, time.Now())
		hedged := 0
		for range 40 {
			c, err := b.Chat(t.Context(), lone(1000))
			if err != nil {
				t.Fatal(err)
			}
			if c.Route.Hedged != (provider.Target{}) {
				hedged++
			}
		}
		time.Sleep(time.Second)
		if hedged == 0 {
			t.Error("no request was hedged")
		}
		for _, s := range []quota.Subject{credentialSubject("k0"), credentialSubject("k1")} {
			if load := books.Load(s); load.InFlight != 0 || load.Free < 0.9 || load.Free >= 1 {
				t.Errorf("%s: %+v", s, load)
			}
		}
	})
}
