package policy_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestIdentities(t *testing.T) {
	p := policytest.Parse(t, `
default_model: a/claude-opus-4-5
providers:
  - name: a
    dialect: openai
    base_url: https://a.example
    models:
      - claude-opus-4-5
      - {name: alias, upstream: claude-haiku-4-5@20251001}
      - {name: claude-sonnet-4-6, upstream: my-deployment}
      - {name: claude-sonnet-4-5, upstream: claude-sonnet-4-6}
      - {name: deployment, identity: gpt-5.5-2026-04-23}
      - {name: tuned, identity: our-own-model}
      - unknown
  - {name: any, dialect: openai, base_url: https://any.example}
`)
	for target, want := range map[provider.Target]string{
		{Provider: "a", Model: "claude-opus-4-5"}:                               "claude-opus-4.5",
		{Provider: "a", Model: "alias"}:                                         "claude-haiku-4.5",
		{Provider: "a", Model: "claude-sonnet-4-6"}:                             "claude-sonnet-4.6",
		{Provider: "a", Model: "claude-sonnet-4-5"}:                             "claude-sonnet-4.6",
		{Provider: "a", Model: "deployment"}:                                    "gpt-5.5",
		{Provider: "a", Model: "tuned"}:                                         "our-own-model",
		{Provider: "a", Model: "unknown"}:                                       "",
		{Provider: "any", Model: "us.anthropic.claude-haiku-4-5-20251001-v1:0"}: "claude-haiku-4.5",
	} {
		if got := p.Offer(target).Identity; got != want {
			t.Errorf("%s has the identity %q, want %q", target, got, want)
		}
		if d, known := p.Describe(target); !known || d.Identity != want {
			t.Errorf("%s is described with the identity %q, want %q", target, d.Identity, want)
		}
	}
	for name, want := range map[string]int{"our-own-model": 1, "gpt-5.5": 1, "claude-sonnet-4.6": 2, "claude-haiku-4-5": 1, "unknown": 0, "": 0} {
		if got := p.HostsOf(name); len(got) != want {
			t.Errorf("%d hosts of %q, want %d", len(got), name, want)
		}
	}
}

func TestIsSameModel(t *testing.T) {
	p := policytest.Parse(t, `
default_model: a/x
providers:
  - {name: a, dialect: openai, base_url: https://a.example, models: [x, {name: y, identity: one}, {name: z, identity: two}]}
  - {name: b, dialect: openai, base_url: https://b.example, models: [x, {name: y, identity: two}, {name: w, identity: one}]}
`)
	for _, c := range []struct {
		a, b string
		want bool
	}{
		{"x", "x", true}, {"y", "w", true}, {"z", "y", true}, // By name, by identity.
		{"y", "y", false}, {"x", "w", false}, {"y", "x", false},
	} {
		a, b := p.Offer(provider.Target{Provider: "a", Model: c.a}), p.Offer(provider.Target{Provider: "b", Model: c.b})
		if a.IsSameModel(b) != c.want || b.IsSameModel(a) != c.want {
			t.Errorf("%s and %s are one model: %t, want %t", a.Target, b.Target, !c.want, c.want)
		}
	}
}

// Telemetry names a provider by its vendor's platform, or else by its own name.
func TestHostsOfOffers(t *testing.T) {
	p := policytest.Parse(t, `
default_model: a/m
providers:
  - {name: a, dialect: openai, base_url: https://mine.openai.azure.com/openai/v1, models: [m]}
  - {name: ours, dialect: openai, base_url: http://vllm.internal:8000/v1}
`)
	for target, want := range map[provider.Target]string{
		{Provider: "a", Model: "m"}:      "azure.ai.openai",
		{Provider: "ours", Model: "any"}: "ours",
	} {
		if got := p.Offer(target).Host; got != want {
			t.Errorf("%s has the host %q, want %q", target, got, want)
		}
	}
}
