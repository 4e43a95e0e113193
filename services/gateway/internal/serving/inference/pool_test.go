package inference

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// pooledKeys are the credentials of a pool, the same for every provider.
type pooledKeys []provider.Credential

func poolOf(n int) pooledKeys {
	var keys pooledKeys
	for i := range n {
		keys = append(keys, provider.Credential{Name: fmt.Sprintf("k%d", i), Fingerprint: fmt.Sprintf("f%d", i), Weight: 1, Source: keyring.SourceFleet})
	}
	return keys
}

func (k pooledKeys) Resolve(context.Context, keyring.Scope, string) ([]provider.Credential, error) {
	return k, nil
}

// pooledVendor refuses the credentials that it has an error for.
type pooledVendor struct {
	mu     sync.Mutex
	errors map[string]*provider.Error
	calls  []string
	// hold keeps calls open until it is closed; nil for none.
	hold chan struct{}
	// usage and limits are what an answer reports, and slow is how long answers take by credential.
	usage  *provider.Usage
	limits provider.Limits
	slow   map[string]time.Duration
}

func (*pooledVendor) Name() string { return "a" }

func (v *pooledVendor) Chat(ctx context.Context, c provider.Credential, _ *provider.Chat) (*provider.Answer, error) {
	provider.ReceiptOf(ctx).SetSent()
	v.mu.Lock()
	v.calls = append(v.calls, c.Name)
	err := v.errors[c.Name]
	v.mu.Unlock()
	if v.hold != nil {
		<-v.hold
	}
	if err := (step{wait: v.slow[c.Name]}).take(ctx); err != nil {
		return nil, err
	}
	if err != nil {
		return nil, err
	}
	usage := provider.Usage{Input: 1, Output: 1}
	if v.usage != nil {
		usage = *v.usage
	}
	return &provider.Answer{Text: "hi", Usage: &usage, Limits: v.limits}, nil
}

func (v *pooledVendor) StreamChat(ctx context.Context, c provider.Credential, chat *provider.Chat) (provider.Stream, error) {
	_, err := v.Chat(ctx, c, chat)
	return &scriptStream{ctx: ctx, of: &script{}, steps: []step{{event: provider.Event{Text: "hi"}}, {event: provider.Event{FinishReason: provider.FinishStop, Usage: v.usage}}}}, err
}

func (v *pooledVendor) names() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.calls)
}

// pooledSetup returns an engine over one vendor with a pool, and one without.
func pooledSetup(t *testing.T, keys pooledKeys, vendor *pooledVendor) *bench {
	t.Helper()
	b := setup(t, nil, &script{name: "a"}, &script{name: "b", answer: good})
	b.Fleet().Providers["a"] = vendor
	b.Fleet().Keys = keys
	b.Fleet().Choices = map[string]policy.Choice{"a": policy.ChoiceWeighted}
	return b
}

func refusal401() *provider.Error {
	return &provider.Error{Class: apierr.ClassAuth, Status: 401, Text: "revoked"}
}

// Credentials that a vendor refuses cost no request an error and no other candidate its place, even if they are more than
// the attempts of a request; then they rest.
func TestRevokedCredentialsCostNoError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{errors: map[string]*provider.Error{}}
		for i := range 6 {
			vendor.errors[fmt.Sprintf("k%d", i)] = refusal401()
		}
		b := pooledSetup(t, poolOf(8), vendor)
		for i := range 50 {
			completion, err := b.Chat(t.Context(), request())
			if err != nil || completion.Report.Provider != "a" {
				t.Fatalf("request %d: %+v, %v; want it served by a", i, completion, err)
			}
		}
		refused := 0
		for _, name := range vendor.names() {
			if vendor.errors[name] != nil {
				refused++
			}
		}
		if refused > 6 {
			t.Errorf("%d calls were made with refused credentials, want one for each", refused)
		}
	})
}

// A refused credential rests longer with each refusal, and comes back by itself once the vendor takes it.
func TestRefusedCredentialComesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{errors: map[string]*provider.Error{"k0": refusal401()}}
		b := pooledSetup(t, poolOf(2), vendor)
		// triedWithin reports whether k0 is called within a time.
		triedWithin := func(span time.Duration) bool {
			before := len(vendor.names())
			for range 40 {
				if _, err := b.Chat(t.Context(), request()); err != nil {
					t.Fatal(err)
				}
				time.Sleep(span / 40)
			}
			return slices.Contains(vendor.names()[before:], "k0")
		}
		if !triedWithin(9 * time.Second) {
			t.Fatal("k0 was never chosen")
		}
		time.Sleep(time.Second)
		if !triedWithin(2*time.Second) || triedWithin(15*time.Second) {
			t.Error("want the second refusal to rest k0 for twenty seconds")
		}
		vendor.mu.Lock()
		clear(vendor.errors)
		vendor.mu.Unlock()
		time.Sleep(5 * time.Minute)
		for range 2 {
			if !triedWithin(time.Second) {
				t.Error("k0 does not serve again")
			}
		}
	})
}

// A rate limit of one credential moves the request to another one; only when all are limited does another provider serve.
func TestLimitedCredentials(t *testing.T) {
	limited := &provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: time.Minute}
	for name, tt := range map[string]struct {
		errors map[string]*provider.Error
		want   string
	}{
		"one":  {map[string]*provider.Error{"k0": limited}, "a"},
		"all":  {map[string]*provider.Error{"k0": limited, "k1": limited, "k2": limited}, "b"},
		"none": {nil, "a"},
		"a failure of the vendor is no credential's": {map[string]*provider.Error{
			"k0": {Class: apierr.ClassServerError, Status: 500}, "k1": {Class: apierr.ClassServerError, Status: 500}, "k2": {Class: apierr.ClassServerError, Status: 500},
		}, "b"},
	} {
		vendor := &pooledVendor{errors: tt.errors}
		b := pooledSetup(t, poolOf(3), vendor)
		for range 3 {
			completion, err := b.Chat(t.Context(), request())
			if err != nil || completion.Report.Provider != tt.want {
				t.Errorf("%s: %+v, %v; want %s", name, completion, err, tt.want)
			}
		}
		if calls := vendor.names(); len(tt.errors) == 3 && tt.errors["k0"] != limited && len(calls) > 3 {
			t.Errorf("%s: %v calls, want one a request", name, calls)
		}
	}
}

// The least loaded credential serves, and calls in flight are counted until they end.
func TestLeastLoadedCredential(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vendor := &pooledVendor{hold: make(chan struct{})}
		b := pooledSetup(t, poolOf(3), vendor)
		b.Fleet().Choices["a"] = policy.ChoiceLeastLoaded
		var calls sync.WaitGroup
		for range 3 {
			calls.Go(func() { _, _ = b.Chat(t.Context(), request()) })
			synctest.Wait()
		}
		names := vendor.names()
		slices.Sort(names)
		if !slices.Equal(names, []string{"k0", "k1", "k2"}) {
			t.Errorf("three calls at once went to %v, want one each", names)
		}
		close(vendor.hold)
		calls.Wait()
		for _, name := range names {
			if use := b.Health.CredentialUse("a", name); use.InFlight != 0 {
				t.Errorf("%s has %d calls in flight after their end", name, use.InFlight)
			}
		}
	})
}
