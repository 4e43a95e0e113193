package policy

import (
	"maps"
	"slices"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// DefaultGoal returns the goal of requests that name none.
func (p *Policy) DefaultGoal() Goal { return p.goal }

// Ranked returns the offers that the policy ranks for a goal, best first.
func (p *Policy) Ranked(goal Goal) []*Offer { return p.ranks[goal] }

// Ladder returns the offers that are tried in turn for an operation if the requested ones fail.
func (p *Policy) Ladder(operation provider.Operation) []*Offer { return p.ladders[operation] }

// Default returns the offer for an operation of requests that name no model, or nil if there is none.
func (p *Policy) Default(operation provider.Operation) *Offer { return p.defaults[operation] }

// ProviderDefault returns the offer for an operation of requests that name only the provider, or nil if there is none.
func (p *Policy) ProviderDefault(name string, operation provider.Operation) *Offer {
	e := p.byName[name]
	if e == nil {
		return nil
	}
	return e.defaults[operation]
}

// Offer returns the provider's offer of a model, or nil if there is none. A provider that lists no models offers any.
func (p *Policy) Offer(t provider.Target) *Offer {
	e := p.byName[t.Provider]
	if e == nil {
		return nil
	}
	return e.find(t.Model)
}

// OffersOf returns the offers of a model by all providers that list it, in the policy's order.
func (p *Policy) OffersOf(model string) []*Offer { return p.byModel[model] }

// Serves returns the operations of a provider's model, or none if the policy has no such model. An empty model stands
// for any of the provider's models.
func (p *Policy) Serves(t provider.Target) []provider.Operation {
	e := p.byName[t.Provider]
	if e == nil {
		return nil
	}
	var set provider.OperationSet
	if t.Model == "" {
		if set = e.dialect.Operations; len(e.Models) > 0 {
			set = 0
			for _, o := range e.offers {
				set |= o.Operations
			}
		}
	} else if o := e.find(t.Model); o != nil {
		if set = o.Operations; o.Unlisted {
			set &= provider.Contracted() // Whether it has others is unknown until a request names it for one.
		}
	}
	return set.List()
}

// AccessRule lists the providers that may see data of a classification.
type AccessRule struct {
	// Organizations is the pattern of organizations that the rule applies to.
	Organizations, Classification string
	Providers                     []string
}

// AccessRules returns the policy's data rules, in the order in which they apply.
func (p *Policy) AccessRules() []AccessRule {
	var all []AccessRule
	for _, t := range p.tenants {
		for _, pattern := range t.Organizations {
			for _, name := range slices.Sorted(maps.Keys(t.allowed)) {
				rule := AccessRule{Organizations: pattern, Classification: name}
				for i, may := range t.allowed[name] {
					if may {
						rule.Providers = append(rule.Providers, p.Providers[i].Name)
					}
				}
				all = append(all, rule)
			}
		}
	}
	return all
}

// Description is what the policy knows about a model.
type Description struct {
	Operations []provider.Operation
	// Features are the names of its features; unknown features are assumed to be supported.
	Features []string
	Limits   Limits
	// MostDimensions is the length of its longest vectors; 0 is unknown.
	MostDimensions int
	// Identity is one name for the model at all of its hosts; empty if unknown.
	Identity string
}

// Describe returns what is known about a model, or false if the policy has no such model.
func (p *Policy) Describe(t provider.Target) (Description, bool) {
	o := p.Offer(t)
	if o == nil {
		return Description{}, false
	}
	d := Description{Operations: p.Serves(t), Limits: o.Capabilities.Limits, MostDimensions: o.Capabilities.Dimensions.Max, Identity: o.Identity}
	if lengths := o.Capabilities.Dimensions.AnyOf; len(lengths) > 0 {
		d.MostDimensions = slices.Max(lengths)
	}
	for i, name := range featureNames {
		if o.Lacks&(1<<i) == 0 {
			d.Features = append(d.Features, name)
		}
	}
	return d, true
}

// ByUpstream returns the policy's name of a model, given the vendor's own name for it. A name that is the policy's
// already, or is unknown, is returned unchanged.
func (p *Policy) ByUpstream(t provider.Target) string {
	e := p.byName[t.Provider]
	if e == nil || t.Model == "" || e.offers[t.Model] != nil {
		return t.Model
	}
	for _, model := range e.Models {
		if model.Upstream == t.Model {
			return model.Name
		}
	}
	return t.Model
}
