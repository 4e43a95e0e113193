package policy

import (
	"errors"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/gateway/internal/governance/pattern"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Tenant holds the rules for the data of some organizations.
type Tenant struct {
	// Organizations are patterns of names; "*" stands for any characters.
	Organizations []string `yaml:"organizations"`
	// Default is the classification of a request that names none. If empty, such a request is not restricted.
	Default string `yaml:"default"`
	// Classifications maps each classification to the rule for its data.
	Classifications map[string]Rule `yaml:"classifications"`
}

// Rule selects the providers that may see data of a classification: those that meet all fields set.
type Rule struct {
	// Providers are names of providers; empty: any.
	Providers []string `yaml:"providers"`
	// Regions are the allowed regions: all of a provider's regions must be among them.
	Regions []string `yaml:"regions"`
	// Tags are the required tags: a provider must have all of them.
	Tags []string `yaml:"tags"`
	// Deny allows no provider.
	Deny bool `yaml:"-"`
}

// UnmarshalYAML reads "allow", "deny" or the fields of a rule.
func (r *Rule) UnmarshalYAML(node *yaml.Node) error {
	if node.Kind == yaml.ScalarNode {
		switch node.Value {
		case "allow":
		case "deny":
			r.Deny = true
		default:
			return fmt.Errorf("line %d: classifications: %q: want allow, deny, or providers, regions and tags", node.Line, node.Value)
		}
		return nil
	}
	type plain Rule
	return strictNode(node, (*plain)(r))
}

func (r *Rule) admits(p *Provider) bool {
	switch {
	case r.Deny,
		len(r.Providers) > 0 && !slices.Contains(r.Providers, p.Name),
		len(r.Regions) > 0 && len(p.Regions) == 0:
		return false
	}
	for _, region := range p.Regions {
		if len(r.Regions) > 0 && !slices.Contains(r.Regions, region) {
			return false
		}
	}
	for _, tag := range r.Tags {
		if !slices.Contains(p.Tags, tag) {
			return false
		}
	}
	return true
}

// tenant is a Tenant compiled for planning.
type tenant struct {
	*Tenant
	// allowed holds, for each classification, whether a provider may see its data, by the provider's index.
	allowed map[string][]bool
}

func (p *Policy) addTenant(t *Tenant) error {
	if len(t.Organizations) == 0 || slices.Contains(t.Organizations, "") {
		return errors.New(`organizations: is required; "*" is all`)
	}
	compiled := tenant{t, make(map[string][]bool)}
	for name, rule := range t.Classifications {
		if err := p.checkNames(rule.Providers); err != nil {
			return fmt.Errorf("classifications.%s.providers: %w", name, err)
		}
		allowed := make([]bool, len(p.Providers))
		for i := range p.Providers {
			allowed[i] = rule.admits(&p.Providers[i])
		}
		compiled.allowed[name] = allowed
	}
	if _, ok := compiled.allowed[t.Default]; t.Default != "" && !ok {
		return fmt.Errorf("default: %q is not one of the classifications", t.Default)
	}
	p.tenants = append(p.tenants, compiled)
	return nil
}

func (p *Policy) checkNames(providers []string) error {
	for _, name := range providers {
		if p.byName[name] == nil {
			return fmt.Errorf("%q: no such provider", name)
		}
	}
	return nil
}

// Access is the set of providers that may see some data.
type Access struct {
	// providers is indexed by provider; nil means all.
	providers []bool
}

// Admits reports whether the provider of an offer may see the data.
func (a Access) Admits(o *Offer) bool { return a.providers == nil || a.providers[o.index] }

// Access returns which providers may see data of an organization under a classification; an empty one stands for the
// organization's default. A classification without a rule for the organization is refused (ReasonDataClassification): a
// misspelled label must not allow what it was meant to forbid.
func (p *Policy) Access(organization, classification string) (Access, error) {
	if len(p.tenants) == 0 {
		return Access{}, nil
	}
	for i := range p.tenants {
		t := &p.tenants[i]
		if !pattern.Any(t.Organizations, organization) {
			continue
		}
		label := classification
		if label == "" {
			label = t.Default
		}
		if label == "" {
			return Access{}, nil
		}
		allowed, ok := t.allowed[label]
		if !ok {
			return Access{}, errUnclassified(label)
		}
		return Access{allowed}, nil
	}
	if classification != "" {
		return Access{}, errUnclassified(classification)
	}
	return Access{}, nil
}

func errUnclassified(label string) error {
	return Denied("data_classification: the organization has no rule for the label " + screen.Quote(label))
}

// ReasonDataClassification is the reason of a refusal because no provider that could serve the request may see its
// data.
const ReasonDataClassification apierr.Reason = "data_classification"

// Denied returns the refusal of a request because of its data's classification.
func Denied(text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: ReasonDataClassification, Class: apierr.ClassPolicy, Text: text}
}
