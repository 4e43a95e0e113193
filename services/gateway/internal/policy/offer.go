package policy

import (
	"cmp"
	"slices"

	"github.com/cespare/xxhash/v2"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Offer is a model of a provider, compiled for planning. It belongs to its Policy and must not be modified.
type Offer struct {
	provider.Target
	// Upstream is the vendor's own name of the model.
	Upstream string
	// Identity is one name for the model at all of its hosts; empty if it is not known. See package identity.
	Identity string
	// Host is the provider's name in OpenTelemetry's conventions.
	Host string
	// Unlisted reports that the policy does not name the model: a request did, for a provider that takes any model.
	Unlisted bool
	// Settings are the settings of the provider.
	Settings *Provider
	// Capabilities are the model's, completed with its provider's. Operations are those that both the model and its
	// dialect support.
	Capabilities Capabilities
	Operations   provider.OperationSet
	// forms are the forms of requests that the provider takes for the model as they were written.
	forms []string
	// Hints are those that the provider takes for the model.
	Hints provider.Hint
	// Terms describes what the vendor refuses for the model.
	Terms *provider.Terms
	// relays are the APIs whose calls the provider relays.
	relays []string
	// Lacks is the set of features that the model does not have.
	Lacks Feature
	// Hash is a hash of the target, for rendezvous hashing.
	Hash uint64

	// index is the provider's index in the policy.
	index int
	// ranks are those by goal; tied reports that other offers have the same rank.
	ranks [3]int32
	tied  [3]bool
}

// Unranked is the rank of an offer that a goal's ranks don't list; it is behind all that they list.
const Unranked = 1 << 30

// Rank returns the offer's rank for a goal, starting at 0, or Unranked. tied reports whether other offers have the
// same rank.
func (o *Offer) Rank(goal Goal) (rank int32, tied bool) {
	at := goal.index()
	return o.ranks[at], o.tied[at]
}

// Takes reports whether the provider takes a request in a dialect for the model as its caller wrote it.
func (o *Offer) Takes(form string) bool { return slices.Contains(o.forms, form) }

// Relays reports whether the provider relays calls of an API.
func (o *Offer) Relays(api string) bool { return slices.Contains(o.relays, api) }

// entry is a provider with its offers.
type entry struct {
	*Provider
	dialect provider.Dialect
	forms   func(model string) []string
	hints   func(model string) provider.Hint
	// host is the provider's name in OpenTelemetry's conventions; its own if they have none.
	host     string
	index    int
	offers   map[string]*Offer
	defaults map[provider.Operation]*Offer
}

// offer compiles a model of the provider.
func (e *entry) offer(model *Model) *Offer {
	target := provider.Target{Provider: e.Name, Model: model.Name}
	o := &Offer{
		Target: target, Upstream: cmp.Or(model.Upstream, model.Name), Identity: model.identity(), Host: e.host, Settings: e.Provider, index: e.index,
		Capabilities: model.withDefaults(e.Capabilities), Operations: e.dialect.Operations,
		ranks: [3]int32{Unranked, Unranked, Unranked}, Hash: xxhash.Sum64String(target.String()),
	}
	o.forms, o.relays, o.Hints = e.forms(o.Upstream), e.dialect.Relays, e.hints(o.Upstream)
	o.Terms = o.Capabilities.Sampling.override(e.dialect.TermsOf(o.Upstream))
	if o.Capabilities.Operations != nil {
		o.Operations &= provider.SetOf(o.Capabilities.Operations...)
	} else {
		o.Operations &= provider.Contracted()
	}
	if o.Capabilities.Features != nil {
		o.Lacks = ^*o.Capabilities.Features & (1<<len(featureNames) - 1)
	}
	if o.Capabilities.Features == nil && (e.dialect.Reasons == nil || !e.dialect.Reasons(o.Upstream)) {
		o.Lacks |= FeatureReasoning
	}
	if !e.dialect.TokenInput {
		o.Lacks |= FeatureTokenInput
	}
	return o
}

// find returns the provider's offer of a model, or nil if there is none. A provider without a list offers any model.
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
	if made.Capabilities.Operations == nil {
		made.Operations = e.dialect.Operations // The request that names the model knows what it is for.
	}
	return made
}
