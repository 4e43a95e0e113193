package policy_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A model's name decides which sampling settings it accepts, unless the policy says otherwise.
func TestSamplingOverridesTheName(t *testing.T) {
	p := policytest.Parse(t, `
default_model: a/claude-sonnet-5
providers:
  - name: a
    dialect: anthropic
    base_url: https://vendor.example
    models: [claude-sonnet-5, {name: own, sampling: one}, {name: claude-opus-5, sampling: any}, {name: old, upstream: claude-3-opus, sampling: default}]
`)
	for model, want := range map[string]provider.Sampling{
		"claude-sonnet-5": provider.SamplingDefault, "own": provider.SamplingOne, "claude-opus-5": provider.SamplingAny, "old": provider.SamplingDefault,
	} {
		offer := p.Offer(provider.Target{Provider: "a", Model: model})
		if offer == nil || offer.Terms.Sampling != want {
			t.Errorf("%s: %+v, want %v", model, offer, want)
		}
	}
}
