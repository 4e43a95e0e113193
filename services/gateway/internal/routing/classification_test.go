package routing

import (
	"strings"
	"testing"

	"switchyard.dev/services/platform/apierr"
)

const rules = `
data_classification:
  - organizations: [acme, "acme-*-eu"]
    default: internal
    classifications:
      public: allow
      internal: {tags: [zdr]}
      personal: {regions: [eu, ch]}
      mixed: {providers: [one, two], tags: [local]}
      secret: deny
  - organizations: ["*"]
    classifications:
      public: allow
      personal: {providers: [one]}
`

func TestClassification(t *testing.T) {
	cases := []struct {
		name, organization, label, model string
		want                             string // candidates, or what the refusal says
	}{
		{"anywhere", "acme", "public", "small", "one/small ~two/wise ~one/big ~three/flash"},
		{"the default of the tenant, by tags", "acme", "", "small", "one/small ~two/wise ~one/big"},
		{"by region: a provider that has none is left out", "acme", "personal", "small", "~two/wise"},
		{"all lines hold", "acme-7-eu", "mixed", "small", "~two/wise"},
		{"nobody", "acme", "secret", "small", "403 one/small (data_classification)"},
		{"a label that the tenant has not", "acme", "privat", "small", `403 no rule of the organization is for a label "privat"`},
		{"another tenant", "other", "personal", "small", "one/small ~one/big"},
		{"a default that is none", "other", "", "small", "one/small ~two/wise ~one/big ~three/flash"},
		{"a pattern is matched whole", "acme-7-eu2", "internal", "small", "403 no rule"},
	}
	p := read(t, wide+rules)
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			plan, err := p.Plan(Request{Organization: c.organization, Classification: c.label, Model: c.model, Substitution: true}, State{})
			if text, refused := strings.CutPrefix(c.want, "403 "); refused {
				e := apierr.From(err)
				if e == nil || e.Kind != apierr.KindForbidden || e.Reason != ReasonDataClassification || e.ErrorClass() != apierr.ClassPolicy || !strings.Contains(e.Text, text) {
					t.Errorf("error %v, want a refusal with %q", e, text)
				}
				return
			}
			if err != nil || names(plan) != c.want {
				t.Errorf("%s, %v, want %s", names(plan), err, c.want)
			}
		})
	}
}

// A policy without rules takes no position on labels.
func TestNoClassificationRules(t *testing.T) {
	if plan, err := read(t, wide).Plan(Request{Classification: "internal"}, State{}); err != nil {
		t.Errorf("%s, %v", names(plan), err)
	}
	p := read(t, wide+`data_classification: [{organizations: [acme], classifications: {x: deny}}]`)
	if _, err := p.Plan(Request{Organization: "other", Classification: "x"}, State{}); apierr.From(err).Kind != apierr.KindForbidden {
		t.Errorf("an organization without rules sends labelled data: %v", err)
	}
	if _, err := p.Plan(Request{Organization: "other"}, State{}); err != nil {
		t.Errorf("an organization without rules: %v", err)
	}
}

// A pin does not open what a rule closes.
func TestClassificationHoldsForOverrides(t *testing.T) {
	p := read(t, wide+rules)
	request := Request{Organization: "acme", Classification: "personal", Model: "wise", Substitution: true}
	if _, err := p.Plan(request, State{Override: Override{Pin: &Target{"one", "big"}}}); apierr.From(err).Reason != ReasonDataClassification {
		t.Errorf("pin: %v", err)
	}
	plan, err := p.Plan(request, State{Override: Override{Canary: &Canary{Target: Target{"one", "big"}, Percentage: 100}}})
	if err != nil || names(plan) != "two/wise" || plan.Canary {
		t.Errorf("canary: %s, %v", names(plan), err)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		pattern, name string
		want          bool
	}{
		{"acme", "acme", true},
		{"acme", "acme2", false},
		{"*", "", true},
		{"*", "x", true},
		{"a*", "a", true},
		{"a*", "ba", false},
		{"*a", "ba", true},
		{"*a", "ab", false},
		{"a*c", "abc", true},
		{"a*c", "ac", true},
		{"a*a", "a", false},
		{"a*b*c", "a-b-c", true},
		{"a*b*c", "acb", false},
		{"*b*", "abc", true},
		{"*bc*bc", "abc", false},
		{"**", "x", true},
		{"", "", true},
		{"", "x", false},
	} {
		if got := matches(c.pattern, c.name); got != c.want {
			t.Errorf("%q with %q: %t", c.pattern, c.name, got)
		}
	}
}
