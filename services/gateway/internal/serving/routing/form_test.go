package routing

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/platform/apierr"
)

const formPolicy = `
default_model: plain/m
providers:
  - {name: plain, dialect: openai, base_url: http://a, models: [m, gpt-5, {name: listed, features: [tools]}, {name: thinks, features: [reasoning]}]}
  - {name: whole, dialect: openai, base_url: http://b, responses: true, models: [m]}
  - {name: other, dialect: anthropic, base_url: http://c, models: [spare]}
goals: {quality: [[plain/m], [whole/m]]}
ladder: [other/spare]
`

// Hosts that take a request as it was written come first where it offers tools that only they have, and alone where the
// policy refuses to serve without.
func TestOfferedTools(t *testing.T) {
	offered := Needs{Form: "responses", Offered: "tools[0].type: web_search"}
	for _, c := range []struct {
		name, policy, model string
		needs               Needs
		want                string
		native              []bool
	}{
		{"nothing offered", formPolicy, "m", Needs{Form: "responses"}, "plain/m whole/m ~other/spare", []bool{false, true, false}},
		{"tools of the vendor", formPolicy, "m", offered, "whole/m plain/m ~other/spare", []bool{true, false, false}},
		{"in another form", formPolicy, "m", Needs{Form: "anthropic"}, "plain/m whole/m ~other/spare", []bool{false, false, true}},
		{"no host has them", formPolicy, "spare", offered, "other/spare", []bool{false}},
		{"refused", "hosted_tools: refuse\n" + formPolicy, "m", offered, "whole/m", []bool{true}},
	} {
		plan, err := NewPlan(policytest.Parse(t, c.policy), Request{Model: c.model, Needs: c.needs, Substitution: true}, State{})
		if err != nil {
			t.Fatal(err)
		}
		if got := names(plan); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		for i, candidate := range plan.Candidates {
			if candidate.Native != c.native[i] {
				t.Errorf("%s: %s takes it as it came: %t, want %t", c.name, candidate, candidate.Native, c.native[i])
			}
		}
	}
	_, err := NewPlan(policytest.Parse(t, "hosted_tools: refuse\n"+formPolicy), Request{Model: "spare", Needs: offered}, State{})
	if e := apierr.From(err); err == nil || !strings.HasPrefix(e.Text, "tools[0].type: web_search: only providers of the responses dialect") {
		t.Errorf("%v, want an error that names the tool", err)
	}
}

// Which models reason follows from the policy's features, else from the name.
func TestReasoningIsRequired(t *testing.T) {
	p := policytest.Parse(t, formPolicy)
	for model, want := range map[string]bool{"gpt-5": true, "thinks": true, "listed": false, "plain/m": false} {
		plan, err := NewPlan(p, Request{Model: model, Needs: Needs{Reasoning: true}}, State{})
		if (err == nil) != want {
			t.Errorf("%s: %s, %v, want it to be served: %t", model, names(plan), err, want)
		}
		plan, err = NewPlan(p, Request{Model: model}, State{})
		if lacks := err == nil && plan.Candidates[0].Lacks&policy.FeatureReasoning != 0; lacks == want {
			t.Errorf("%s lacks reasoning: %t, want %t", model, lacks, !want)
		}
	}
}
