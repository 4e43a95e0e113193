package app

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// usableKeys are the credentials that can be used now.
type usableKeys []provider.Credential

func (k usableKeys) Resolve(context.Context, keyring.Scope, string) ([]provider.Credential, error) {
	if len(k) == 0 {
		return nil, keyring.ErrNoKey
	}
	return k, nil
}

// The listed credentials of a provider are shown with what keeps each from serving.
func TestCredentialStates(t *testing.T) {
	p := policytest.Parse(t, `
default_model: v/m
providers:
  - name: v
    dialect: openai
    base_url: https://v.example
    models: [m]
    credentials:
      - {name: good, key_file: good.key}
      - {name: refused, key_file: refused.key}
      - {name: limited, key_file: limited.key}
      - {name: gone, key_file: gone.key}
      - {name: old, key_file: old.key, drain: true}
`)
	monitor := health.New(health.Options{})
	keys := usableKeys{{Name: "good", Fingerprint: "1"}, {Name: "refused", Fingerprint: "2"}, {Name: "limited", Fingerprint: "3"}}
	fail := func(c provider.Credential, e *provider.Error) {
		permit, refusal := monitor.Acquire(t.Context(), health.Call{
			Target: provider.Target{Provider: "v", Model: "m"}, Credential: c.Fingerprint, Pooled: c.Name, Organization: "acme",
		})
		if refusal != nil {
			t.Fatal(refusal.Text())
		}
		permit.Fail(t.Context(), e, false)
	}
	fail(keys[1], &provider.Error{Class: apierr.ClassAuth, Status: 401})
	fail(keys[2], &provider.Error{Class: apierr.ClassRateLimit, Status: 429, RetryAfter: time.Minute})
	if _, refusal := monitor.Acquire(t.Context(), health.Call{Target: provider.Target{Provider: "v", Model: "m"}, Credential: "1", Pooled: "good"}); refusal != nil {
		t.Fatal(refusal.Text())
	}
	now := time.Now()
	got := credentialStates(keys, monitor, &p.Providers[0])
	want := []status.Credential{
		{Name: "good", Kind: "key", State: status.CredentialReady, Fingerprint: "1", InFlight: 1},
		{Name: "refused", Kind: "key", State: status.CredentialResting, Reason: health.CauseKeyRefused, Until: now.Add(10 * time.Second), Fingerprint: "2"},
		{Name: "limited", Kind: "key", State: status.CredentialResting, Reason: health.CauseRateLimited, Until: now.Add(time.Minute), Fingerprint: "3"},
		{Name: "gone", Kind: "key", State: status.CredentialMissing},
		{Name: "old", Kind: "key", State: status.CredentialDraining},
	}
	if diff := cmp.Diff(want, got, cmpopts.EquateApproxTime(5*time.Second)); diff != "" {
		t.Errorf("credentials (-want +got):\n%s", diff)
	}
	for _, c := range credentialStates(usableKeys{}, monitor, &p.Providers[0])[:4] {
		if c.State != status.CredentialMissing {
			t.Errorf("without any key %s is %s", c.Name, c.State)
		}
	}
	if got := credentialStates(keys, monitor, &policy.Provider{Name: "v"}); got != nil {
		t.Errorf("a provider that lists no credentials has %v", got)
	}
}
