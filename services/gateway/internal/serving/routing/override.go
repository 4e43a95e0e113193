package routing

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/cespare/xxhash/v2"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// covers reports whether a request is in the canary's share. The choice is the same for all requests of an organization
// or run and on every replica, and a greater percentage keeps every organization or run that a smaller one had.
func covers(c *steering.Canary, r *Request) bool {
	key := r.Organization
	if c.ByRun && r.Run != "" {
		key = r.Run
	}
	point := mix(xxhash.Sum64String(key) ^ mix(xxhash.Sum64String(c.Provider)^mix(xxhash.Sum64String(c.Model))))
	return float64(point>>11)/(1<<53)*100 < c.Percentage
}

// overrideOffer returns the offer that an override selects for this request; nil if there is none. model is the one
// that the request asked for, if any. If the override's model can't do the operation, the provider's default is used.
func (b *planner) overrideOffer(target provider.Target, model string) *policy.Offer {
	if target.Model != "" {
		if o := b.policy.Offer(target); o != nil && o.Operations.Has(b.operation) {
			return o
		}
	}
	if target.Model == "" && model != "" {
		if o := b.policy.Offer(provider.Target{Provider: target.Provider, Model: model}); o != nil && o.Operations.Has(b.operation) {
			return o
		}
	}
	return b.policy.ProviderDefault(target.Provider, b.operation)
}

// pinned plans the pin and no other candidate. It still reads what the request asked for, so that a wrong name is
// refused and a substitution is reported.
func (b *planner) pinned(pin provider.Target) (Plan, error) {
	asked, open, err := b.asked()
	if err != nil {
		return Plan{}, err
	}
	b.isPinned = true
	o := b.overrideOffer(pin, askedModel(asked, open))
	if o == nil {
		return Plan{}, apierr.New(apierr.KindInvalid, ReasonCapabilityUnsupported, fmt.Sprintf(
			"routing is pinned to %s, which has no model for %s", pin.Provider, b.operation))
	}
	substitute := !open && !offers(asked, o)
	if substitute && !b.request.Substitution {
		return Plan{}, apierr.New(apierr.KindUnprocessable, apierr.ReasonUnprocessable, fmt.Sprintf(
			"routing is pinned to %s, and the request allows no substitution of %s", o.Target, asked[0].Target))
	}
	b.section([]*policy.Offer{o}, substitute)
	if !open {
		b.requested = asked[0].Provider
		if !substitute {
			b.requested = o.Provider
		}
	}
	b.warn = b.warning(asked, open)
	return b.plan()
}

// canary puts the canary before every other candidate if the request is in its share. It is not called for a request
// that asked for another target and allows no substitution. A canary that can't serve the request leaves the plan
// unchanged.
func (b *planner) canary(asked []*policy.Offer, open bool) {
	c := b.state.Override.Canary
	if c == nil || !covers(c, &b.request) {
		return
	}
	o := b.canaryOffer(c, askedModel(asked, open))
	if o == nil {
		return
	}
	if !b.has(o) && b.admits(o) {
		b.picked = append(b.picked, scored{Offer: o, substitute: !open && !offers(asked, o)})
	}
	at := slices.IndexFunc(b.picked, func(s scored) bool { return s.is(o) })
	if at < 0 {
		return // The canary was excluded.
	}
	chosen := b.picked[at]
	copy(b.picked[1:at+1], b.picked[:at])
	b.picked[0] = chosen
	b.isCanary = true
}

// canaryOffer is overrideOffer without the provider's default: a canary of a model selects that model only, and a
// canary of a provider applies to requests whose model the provider has.
func (b *planner) canaryOffer(c *steering.Canary, model string) *policy.Offer {
	o := b.overrideOffer(c.Target, model)
	if want := cmp.Or(c.Model, model); o == nil || want != "" && o.Model != want {
		return nil
	}
	return o
}

// askedModel returns the model that a request asked for; empty if it left the model open.
func askedModel(asked []*policy.Offer, open bool) string {
	if open {
		return ""
	}
	return asked[0].Model
}

func offers(all []*policy.Offer, o *policy.Offer) bool {
	for _, each := range all {
		if each.Target == o.Target {
			return true
		}
	}
	return false
}
