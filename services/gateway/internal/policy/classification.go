package policy

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Tenant says who may see which data of some organizations.
type Tenant struct {
	// Organizations by name; "*" stands for any characters.
	Organizations []string `yaml:"organizations"`
	// Default is the classification of a request that names none; empty: such a
	// request is bound by nothing.
	Default string `yaml:"default"`
	// Classifications and who may serve each.
	Classifications map[string]Rule `yaml:"classifications"`
}

// Rule says who may serve data of a classification: the providers that meet
// every line given.
type Rule struct {
	// Providers by name; empty: any.
	Providers []string `yaml:"providers"`
	// Regions that a provider must not leave: all of its own are among them.
	Regions []string `yaml:"regions"`
	// Tags that a provider must have, all of them.
	Tags []string `yaml:"tags"`
	// Deny lets no provider serve it.
	Deny bool `yaml:"-"`
}

// UnmarshalYAML reads "allow", "deny" or the lines of a rule.
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
	// allowed lists, for each classification, who may serve it by the provider's index.
	allowed map[string][]bool
}

func (p *Policy) addTenant(t *Tenant) error {
	if len(t.Organizations) == 0 || slices.Contains(t.Organizations, "") {
		return errors.New(`organizations: is required; "*" is all`)
	}
	compiled := tenant{t, make(map[string][]bool)}
	for name, rule := range t.Classifications {
		if err := p.known(rule.Providers); err != nil {
			return fmt.Errorf("classifications.%s.providers: %w", name, err)
		}
		allowed := make([]bool, len(p.Providers))
		for i := range p.Providers {
			allowed[i] = rule.admits(&p.Providers[i])
		}
		compiled.allowed[name] = allowed
	}
	if _, ok := compiled.allowed[t.Default]; t.Default != "" && !ok {
		return fmt.Errorf("default: %q is none of the classifications", t.Default)
	}
	p.tenants = append(p.tenants, compiled)
	return nil
}

func (p *Policy) known(providers []string) error {
	for _, name := range providers {
		if p.byName[name] == nil {
			return fmt.Errorf("%q: no such provider", name)
		}
	}
	return nil
}

// Access is the set of providers that may see some data.
type Access struct {
	// providers by their index; nil is all of them.
	providers []bool
}

// Admits reports whether the provider of an offer may see the data.
func (a Access) Admits(o *Offer) bool { return a.providers == nil || a.providers[o.index] }

// Access returns which providers may see data of an organization under a classification; an empty one is the
// organization's default. A classification that the organization's rules don't know is refused (ReasonDataClassification):
// a misspelt label must not open what it was meant to close.
func (p *Policy) Access(organization, classification string) (Access, error) {
	if len(p.tenants) == 0 {
		return Access{}, nil
	}
	for i := range p.tenants {
		t := &p.tenants[i]
		if !slices.ContainsFunc(t.Organizations, func(pattern string) bool { return matches(pattern, organization) }) {
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
	return Denied("data_classification: no rule of the organization is for a label " + screen.Quote(label))
}

// ReasonDataClassification refuses a request whose data no provider that could serve it may see.
const ReasonDataClassification apierr.Reason = "data_classification"

// Denied returns the refusal of a request because of its data's classification.
func Denied(text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: ReasonDataClassification, Class: apierr.ClassPolicy, Text: text}
}

// matches reports whether a name fits a pattern, in which "*" stands for any characters.
func matches(pattern, name string) bool {
	head, rest, star := strings.Cut(pattern, "*")
	if !star {
		return pattern == name
	}
	name, ok := strings.CutPrefix(name, head)
	if !ok {
		return false
	}
	for {
		piece, more, star := strings.Cut(rest, "*")
		if !star {
			return strings.HasSuffix(name, piece)
		}
		at := strings.Index(name, piece)
		if at < 0 {
			return false
		}
		name, rest = name[at+len(piece):], more
	}
}
