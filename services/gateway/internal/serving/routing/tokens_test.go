package routing

import (
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// kin are hosts of one embedding model, half of which take tokens.
const kin = `
default_model: {chat: a/chat, embeddings: a/vectors}
providers:
  - {name: a, dialect: openai, base_url: https://a.example, models: [{name: chat, operations: [chat]}, {name: vectors, operations: [embeddings]}]}
  - {name: b, dialect: sandbox, models: [{name: vectors, operations: [embeddings], features: [token_input]}]}
  - {name: c, dialect: gemini, base_url: https://c.example, models: [{name: vectors, operations: [embeddings]}]}
  - {name: d, dialect: openai, base_url: https://d.example, models: [{name: vectors, operations: [embeddings], features: []}, {name: others, operations: [embeddings]}]}
  - {name: e, dialect: cohere, base_url: https://e.example, models: [{name: vectors, features: [token_input]}]}
ladder: {embeddings: [d/others]}
`

// Tokens go only to the hosts of the model that take them, whether the request names the model or one host of it.
func TestTokensStayWithTheirModel(t *testing.T) {
	p := policytest.Parse(t, kin)
	for model, want := range map[string]string{
		"vectors":   "a/vectors b/vectors",
		"a/vectors": "a/vectors ~b/vectors",
		"c/vectors": "~a/vectors ~b/vectors",
		"d/others":  "d/others",
	} {
		plan, err := NewPlan(p, Request{Operation: provider.OperationEmbeddings, Model: model, Substitution: true, Needs: Needs{Tokens: 1}}, State{})
		if err != nil || names(plan) != want {
			t.Errorf("%s: %s, %v, want %s", model, names(plan), err, want)
		}
	}
	// A canary of another model does not affect such requests.
	canary := State{Override: steering.Override{Canary: &steering.Canary{Target: provider.Target{Provider: "d", Model: "others"}, Percentage: 100}}}
	request := Request{Operation: provider.OperationEmbeddings, Model: "vectors", Substitution: true}
	if plan, err := NewPlan(p, request, canary); err != nil || !plan.Canary {
		t.Errorf("texts: %s, %v", names(plan), err)
	}
	request.Needs.Tokens = 1
	if plan, err := NewPlan(p, request, canary); err != nil || plan.Canary || names(plan) != "a/vectors b/vectors" {
		t.Errorf("tokens: %s, %v", names(plan), err)
	}
}

// Whatever else is asked for and set, tokens are never read by another model.
func TestNoOtherModelReadsTokens(t *testing.T) {
	p := policytest.Parse(t, kin)
	target := rapid.Custom(func(t *rapid.T) provider.Target {
		return provider.Target{Provider: rapid.SampledFrom([]string{"a", "b", "c", "d", "e"}).Draw(t, "provider"), Model: rapid.SampledFrom([]string{"vectors", "others", ""}).Draw(t, "model")}
	})
	rapid.Check(t, func(t *rapid.T) {
		asked := target.Draw(t, "asked")
		request := Request{
			Operation: provider.OperationEmbeddings, Provider: rapid.SampledFrom([]string{"", asked.Provider}).Draw(t, "by provider"), Model: asked.Model,
			Substitution: rapid.Bool().Draw(t, "substitution"), Needs: Needs{Tokens: rapid.IntRange(1, 9).Draw(t, "tokens")},
			Goal: rapid.SampledFrom([]policy.Goal{"", policy.GoalCost, policy.GoalLatency, policy.GoalQuality}).Draw(t, "goal"),
		}
		var state State
		if rapid.Bool().Draw(t, "pinned") {
			pin := target.Draw(t, "pin")
			state.Override.Pin = &pin
		}
		if rapid.Bool().Draw(t, "on trial") {
			state.Override.Canary = &steering.Canary{Target: target.Draw(t, "canary"), Percentage: 100}
		}
		plan, err := NewPlan(p, request, state)
		if err != nil {
			return
		}
		for _, c := range plan.Candidates {
			if c.Model != asked.Model {
				t.Fatalf("%s reads tokens of %s, another model", c, asked)
			}
			if c.Provider == "c" || c.Provider == "e" {
				t.Fatalf("%s reads tokens of %s, and its provider reads none", c, asked)
			}
			if c.Provider == "d" && c.Model == "vectors" {
				t.Fatalf("%s reads tokens of %s, another vocabulary", c, asked)
			}
		}
	})
}
