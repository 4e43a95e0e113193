// Package routing decides which provider and model serve a request. A plan is a pure function of the policy, the request
// and the state of the moment; a Router supplies the state. Package inference asks for plans; internal/app makes a Router
// for each policy that comes into force.
package routing

import (
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Router plans requests by one policy and the present state. It is safe for concurrent use.
type Router struct{ o Options }

// Options of a Router. Only Policy is required.
type Options struct {
	Policy *policy.Policy
	// Prices order candidates by cost.
	Prices Prices
	// Live reports latency and availability of the candidates.
	Live Live
	// Lifecycles knows how long models are served.
	Lifecycles Lifecycles
	// Override returns the operators' present override. It is called once for each plan.
	Override func() steering.Override
	// Affinities remembers the targets of affinities across reloads of the policy; nil for none.
	Affinities *AffinityTable
	// Now is the clock; time.Now when nil.
	Now func() time.Time
}

// NewRouter returns a Router.
func NewRouter(o Options) *Router {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Router{o}
}

// Plan returns the candidates of a request in order, or an apierr.Error if there are none.
func (r *Router) Plan(request Request) (Plan, error) {
	state := State{Now: r.o.Now(), Prices: r.o.Prices, Live: r.o.Live, Lifecycles: r.o.Lifecycles}
	if r.o.Override != nil {
		state.Override = r.o.Override()
	}
	remembers := r.o.Affinities != nil && request.Affinity != 0
	if remembers {
		state.Last, state.LastAt = r.o.Affinities.last(request.Affinity)
	}
	plan, err := NewPlan(r.o.Policy, request, state)
	if remembers && err == nil && len(plan.Candidates) > 1 {
		r.o.Affinities.note(request.Affinity, plan.Candidates[0].Target, state.Now)
	}
	return plan, err
}

// Listing returns the models of the router's policy that are not retired.
func (r *Router) Listing() []provider.Target {
	listing := r.o.Policy.Listing()
	if r.o.Lifecycles == nil {
		return listing
	}
	now := r.o.Now()
	return slices.DeleteFunc(listing, func(t provider.Target) bool {
		l := r.o.Lifecycles.Lifecycle(t)
		return l != nil && l.IsRetired(now)
	})
}
