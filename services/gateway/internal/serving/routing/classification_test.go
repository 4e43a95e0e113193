package routing

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

func TestClassification(t *testing.T) {
	cases := []struct {
		name, organization, label, model string
		want                             string // candidates, or a part of the refusal
	}{
		{"anywhere", "acme", "public", "small", "one/small ~two/wise ~one/big ~three/flash"},
		{"the default of the tenant, by tags", "acme", "", "small", "one/small ~two/wise ~one/big"},
		{"by region: a provider that has none is left out", "acme", "personal", "small", "~two/wise"},
		{"all lines hold", "acme-7-eu", "mixed", "small", "~two/wise"},
		{"nobody", "acme", "secret", "small", "403 one/small (data_classification)"},
		{"a label that the tenant has not", "acme", "privat", "small", `403 the organization has no rule for the label "privat"`},
		{"another tenant", "other", "personal", "small", "one/small ~one/big"},
		{"a default that is none", "other", "", "small", "one/small ~two/wise ~one/big ~three/flash"},
		{"a pattern is matched whole", "acme-7-eu2", "internal", "small", "403 no rule"},
	}
	p := policytest.Parse(t, policytest.Wide+policytest.Rules)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := NewPlan(p, Request{Organization: c.organization, Classification: c.label, Model: c.model, Substitution: true}, State{})
			if text, refused := strings.CutPrefix(c.want, "403 "); refused {
				checkRefusal(t, err, refusal{apierr.KindForbidden, policy.ReasonDataClassification, apierr.ClassPolicy}, text)
				return
			}
			if err != nil || names(plan) != c.want {
				t.Errorf("%s, %v, want %s", names(plan), err, c.want)
			}
		})
	}
}

// A policy without rules ignores labels.
func TestNoClassificationRules(t *testing.T) {
	if plan, err := NewPlan(policytest.Parse(t, policytest.Wide), Request{Classification: "internal"}, State{}); err != nil {
		t.Errorf("%s, %v", names(plan), err)
	}
	p := policytest.Parse(t, policytest.Wide+`data_classification: [{organizations: [acme], classifications: {x: deny}}]`)
	if _, err := NewPlan(p, Request{Organization: "other", Classification: "x"}, State{}); apierr.From(err).Kind != apierr.KindForbidden {
		t.Errorf("an organization without rules sends labelled data: %v", err)
	}
	if _, err := NewPlan(p, Request{Organization: "other"}, State{}); err != nil {
		t.Errorf("an organization without rules: %v", err)
	}
}

// A pin does not permit what a rule denies.
func TestClassificationHoldsForOverrides(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide+policytest.Rules)
	request := Request{Organization: "acme", Classification: "personal", Model: "wise", Substitution: true}
	if _, err := NewPlan(p, request, State{Override: steering.Override{Pin: &provider.Target{Provider: "one", Model: "big"}}}); apierr.From(err).Reason != policy.ReasonDataClassification {
		t.Errorf("pin: %v", err)
	}
	plan, err := NewPlan(p, request, State{Override: steering.Override{Canary: &steering.Canary{Target: provider.Target{Provider: "one", Model: "big"}, Percentage: 100}}})
	if err != nil || names(plan) != "two/wise" || plan.Canary {
		t.Errorf("canary: %s, %v", names(plan), err)
	}
}
