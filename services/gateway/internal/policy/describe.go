package policy

import (
	"maps"
	"slices"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// DefaultGoal is the goal of requests that name none.
func (p *Policy) DefaultGoal() Goal { return p.goal }

// Ranked returns the offers that the policy ranks for a goal, best first.
func (p *Policy) Ranked(goal Goal) []*Offer { return p.ranks[goal] }

// Ladder returns the offers that are tried in turn for an operation when those that were asked for fail.
func (p *Policy) Ladder(operation provider.Operation) []*Offer { return p.ladders[operation] }

// Default returns the offer for an operation of requests that name no model; nil where there is none.
func (p *Policy) Default(operation provider.Operation) *Offer { return p.defaults[operation] }

// ProviderDefault returns the offer for an operation of requests that name only the provider; nil where there is none.
func (p *Policy) ProviderDefault(name string, operation provider.Operation) *Offer {
	e := p.byName[name]
	if e == nil {
		return nil
	}
	return e.defaults[operation]
}

// Offer returns the provider's offer of a model; nil where it has none. A provider that lists no models offers any.
func (p *Policy) Offer(t provider.Target) *Offer {
	e := p.byName[t.Provider]
	if e == nil {
		return nil
	}
	return e.find(t.Model)
}

// OffersOf returns the offers of a model at all providers that list it, in the policy's order.
func (p *Policy) OffersOf(model string) []*Offer { return p.byModel[model] }

// Serves returns the operations that a provider's model does; none where the policy
// has no such model. An empty model is any of the provider's.
func (p *Policy) Serves(t provider.Target) []provider.Operation {
	e := p.byName[t.Provider]
	if e == nil {
		return nil
	}
	var set provider.OperationSet
	if t.Model == "" {
		if set = dialects[e.Dialect]; len(e.Models) > 0 {
			set = 0
			for _, o := range e.offers {
				set |= o.Operations
			}
		}
	} else if o := e.find(t.Model); o != nil {
		set = o.Operations
	}
	return set.List()
}

// Sight says which providers may see data of a classification.
type Sight struct {
	// Organizations is the pattern that it holds for.
	Organizations, Classification string
	Providers                     []string
}

// Sights are the policy's rules of data, in the order in which they hold.
func (p *Policy) Sights() []Sight {
	var all []Sight
	for _, t := range p.tenants {
		for _, pattern := range t.Organizations {
			for _, name := range slices.Sorted(maps.Keys(t.allowed)) {
				sight := Sight{Organizations: pattern, Classification: name}
				for i, may := range t.allowed[name] {
					if may {
						sight.Providers = append(sight.Providers, p.Providers[i].Name)
					}
				}
				all = append(all, sight)
			}
		}
	}
	return all
}

// Description is what the policy knows of a model.
type Description struct {
	Operations []provider.Operation
	// Features by their names; those that are not known are taken for given.
	Features []string
	Limits   Limits
	// MostDimensions of its vectors; 0 is unknown.
	MostDimensions int
}

// Describe gives what is known of a model; false where the policy has none such.
func (p *Policy) Describe(t provider.Target) (Description, bool) {
	o := p.Offer(t)
	if o == nil {
		return Description{}, false
	}
	d := Description{Operations: p.Serves(t), Limits: o.Capabilities.Limits, MostDimensions: o.Capabilities.Dimensions.Max}
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

// ByUpstream returns our name of a model that a vendor calls by its own; a name that
// is already ours, or is no known model's, stays as it is.
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
