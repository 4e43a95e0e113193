package policy_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/platform/testkit/growth"
)

// The operator's files (the policy and the extra providers), bounded at the size of a file with thousands of providers.
func TestParseGrowsLinearly(t *testing.T) {
	extra := []growth.Input{
		growth.Number("providers", `{"providers": [`, `{"name": "p#", "dialect": "openai", "base_url": "http://127.0.0.1:11434"},`, `{"name": "z", "dialect": "openai", "base_url": "http://127.0.0.1:1"}]}`),
		growth.Number("models", `{"providers": [{"name": "p", "dialect": "openai", "base_url": "http://127.0.0.1:11434", "models": [`, `"m#", `, `"z"]}]}`),
		growth.Nest("nested lists", "[", "", "]").In(`{"providers": `, "}"), growth.Repeat("a long name", `{"providers": [{"name": "`, "n", `"}]}`),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, extra), func(text []byte) {
		_, _ = policy.Parse(policy.Source{Text: []byte(policytest.Small)}, policy.Source{Text: text})
	})...)
	policies := []growth.Input{
		growth.Number("rungs", "providers:\n  - {name: sandbox, dialect: sandbox, models: [m]}\ndefault_model: sandbox/m\nladder:\n", "  - sandbox/m#\n", ""),
		growth.Number("aliases", "providers:\n  - {name: sandbox, dialect: sandbox, models: [m]}\ndefault_model: sandbox/m\naliases:\n", "  a#: sandbox/m\n", ""),
		growth.Number("rules of tools", "providers:\n  - {name: sandbox, dialect: sandbox, models: [m]}\ndefault_model: sandbox/m\ntools:\n  rules:\n", "  - {when: 'args.a# > 1', deny: true}\n", ""),
		growth.Number("anchors", "a: &a [1]\nb:\n", "  - *a\n", ""),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, policies), func(text []byte) { _, _ = policy.Parse(policy.Source{Text: text}, policy.Source{}) })...)
}

// The places of problems are found in time that is linear in the file and in the number of problems.
func TestProblemsGrowsLinearly(t *testing.T) {
	inputs := []growth.Input{
		growth.Number("wrong providers", "providers:\n", "  - {name: P#, dialect: openai}\n", ""),
		growth.Number("wrong models", "providers:\n  - name: p\n    dialect: openai\n    models:\n", "      - {name: default}\n", ""),
		growth.Number("unknown fields", "providers:\n", "  - {nam#: p}\n", ""),
		growth.Nest("nested lists", "[", "", "]").In("providers: ", ""),
		growth.Repeat("a long name", `providers: [{name: "`, "N", `"}]`),
	}
	growth.Linear(t, growth.Each(growth.UpTo(64<<10, inputs), func(text []byte) {
		rules, extra := policy.Source{Text: []byte(policytest.Small)}, policy.Source{Name: "extra.yaml", Text: text}
		if _, err := policy.Parse(rules, extra); err != nil {
			_ = policy.NewLocator(rules, extra).Problems(err)
		}
	})...)
}
