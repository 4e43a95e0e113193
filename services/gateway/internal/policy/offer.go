package policy

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Offer is a model at a provider, compiled for planning. It belongs to its Policy; callers only read it.
type Offer struct {
	provider.Target
	// Upstream is the model by the vendor's own name.
	Upstream string
	// Unlisted reports that no policy names the model: a request did, at a provider that takes any.
	Unlisted bool
	// Settings of the provider.
	Settings *Provider
	// Capabilities of the model, completed with those of its provider; Operations are those that both it and its dialect have.
	Capabilities Capabilities
	Operations   provider.OperationSet
	// Lacks are the features that the model does not have.
	Lacks Feature
	// Hash of the target, for rendezvous.
	Hash uint64

	// index of the provider in the policy.
	index int
	// places in the ranks, by goal; tied reports that others have the same place.
	places [3]int32
	tied   [3]bool
}

// Unranked is the place of an offer that a goal's ranks don't list: behind all that they do.
const Unranked = 1 << 30

// Place returns the offer's place in the ranks of a goal, from 0, or Unranked; tied reports whether others share it.
func (o *Offer) Place(goal Goal) (place int32, tied bool) {
	at := goal.index()
	return o.places[at], o.tied[at]
}

// entry is a provider with its offers.
type entry struct {
	*Provider
	index    int
	offers   map[string]*Offer
	defaults map[provider.Operation]*Offer
}

// offer compiles a model of the provider.
func (e *entry) offer(model *Model) *Offer {
	target := provider.Target{Provider: e.Name, Model: model.Name}
	o := &Offer{
		Target: target, Upstream: cmp.Or(model.Upstream, model.Name), Settings: e.Provider, index: e.index,
		Capabilities: model.within(e.Capabilities), Operations: dialects[e.Dialect],
		places: [3]int32{Unranked, Unranked, Unranked}, Hash: xxhash.Sum64String(target.String()),
	}
	if o.Capabilities.Operations != nil {
		o.Operations &= provider.SetOf(o.Capabilities.Operations...)
	}
	if o.Capabilities.Features != nil {
		o.Lacks = ^*o.Capabilities.Features & (1<<len(featureNames) - 1)
	}
	if !slices.Contains(takesTokens, e.Dialect) {
		o.Lacks |= FeatureTokenInput
	}
	return o
}

// find returns the provider's offer of a model; nil where it has none. A provider without a list has any.
func (e *entry) find(model string) *Offer {
	if len(e.Models) > 0 {
		return e.offers[model]
	}
	if model == "" {
		return nil
	}
	if known := e.offers[model]; known != nil {
		return known
	}
	made := e.offer(&Model{Name: model})
	made.Unlisted = true
	return made
}
