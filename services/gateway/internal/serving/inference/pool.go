package inference

import (
	"math/rand/v2"

	"switchyard.dev/services/gateway/internal/capacity/quota"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/pool"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// maxSwitches bounds how often a request replaces a credential by another one of the same pool.
const maxSwitches = 8

// orderPool returns the credentials of a pool in the order in which a request tries them.
func (e *Engine) orderPool(a *admitted, planned *routing.Candidate, credentials []provider.Credential) []provider.Credential {
	name := planned.Provider
	states := make([]pool.State, len(credentials))
	for i := range credentials {
		c := &credentials[i]
		use := e.Health.CredentialUse(name, c.Name)
		states[i] = pool.State{Name: c.Name, Weight: c.Weight, Load: float64(use.InFlight), Latency: use.Latency}
	}
	if a.fleet.Choices[name] == policy.ChoiceLeastLoaded {
		e.loadByLimits(a, planned, states)
	}
	ordered := make([]provider.Credential, len(credentials))
	for i, index := range pool.Order(a.fleet.Choices[name], states, a.request.Route.Affinity, rand.Float64) {
		ordered[i] = credentials[index]
	}
	return ordered
}

// loadByLimits sets the load of credentials to the part of their limits that is in use, if all of them have one.
func (e *Engine) loadByLimits(a *admitted, planned *routing.Candidate, states []pool.State) {
	if e.Quotas == nil || a.fleet.Limits == nil {
		return
	}
	used := make([]float64, len(states))
	for i := range states {
		subject, limit := a.fleet.Limits.CredentialQuota(planned.Target, planned.Unlisted, states[i].Name)
		if limit == (quota.Limit{}) {
			return
		}
		used[i] = 1 - e.Quotas.Load(subject).Free
	}
	for i := range states {
		states[i].Load = used[i] * float64(states[i].Weight) // A larger limit has its weight already.
	}
}

// switches reports whether the candidate's next credential is tried: where the last failure was that of the credential,
// another one may serve.
func (r *round) switches(c *candidate) bool {
	if len(c.others) == 0 || r.switched >= maxSwitches || len(r.failures) == 0 {
		return false
	}
	switch f := r.failures[len(r.failures)-1]; f.skipped {
	case "":
		return f.Class == apierr.ClassAuth || f.Class == apierr.ClassRateLimit
	case health.CauseRateLimited, health.CauseKeyRefused, health.CauseNoRequests, health.CauseNoTokens, health.CauseQuota:
		return true
	case health.CauseOpen, health.CauseHeld, health.CauseShare, health.CauseFull:
	}
	return false
}

// another returns the candidate with its next credential.
func (c candidate) another() candidate {
	c.credential, c.others, c.held = c.others[0], c.others[1:], nil
	return c
}

// spare reports whether one of the candidate's other credentials may be called.
func (r *round) spare(c candidate) bool {
	for len(c.others) > 0 {
		if c = c.another(); r.engine.Health.Admits(r.asks(&c, false)) {
			return true
		}
	}
	return false
}
