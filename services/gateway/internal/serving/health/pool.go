package health

import (
	"cmp"
	"sync"
	"sync/atomic"
	"time"
)

// pooled is what is known of a credential of a provider's pool. Only the policy names such credentials, so that their
// number needs no bound here.
type pooled struct {
	inFlight           atomic.Int64
	answers, beginning speeds
}

// CredentialUse is how a credential of a pool is used.
type CredentialUse struct {
	// InFlight is the number of calls that it has at this replica.
	InFlight int64
	// Latency is its recent wait for the first content, or for whole answers where it has streamed nothing; 0 when too
	// little is known.
	Latency time.Duration
}

// CredentialUse returns how a provider's pooled credential is used.
func (m *Monitor) CredentialUse(provider, name string) CredentialUse {
	m.mu.Lock()
	v := m.vendor(provider)
	m.mu.Unlock()
	p := v.pool.find(name)
	if p == nil {
		return CredentialUse{}
	}
	now := m.now()
	return CredentialUse{p.inFlight.Load(), cmp.Or(p.beginning.median(now), p.answers.median(now))}
}

// CredentialRest returns until when a provider's credential rests, for some of its models at least, and why; the zero
// time if it doesn't.
func (m *Monitor) CredentialRest(provider, fingerprint string) (until time.Time, cause Cause) {
	m.mu.Lock()
	v := m.vendors[provider]
	all := []*credentials{}
	for name, c := range m.circuits {
		if name.Provider == provider {
			all = append(all, &c.credentials)
		}
	}
	m.mu.Unlock()
	if v == nil {
		return time.Time{}, ""
	}
	now, longest := m.now(), cooldown{}
	for _, c := range append(all, &v.credentials) {
		if a := c.find(fingerprint); a != nil {
			longest = longest.longer(a.rest())
		}
	}
	if !now.Before(longest.until) {
		return time.Time{}, ""
	}
	return longest.until, longest.cause
}

// pooledCredentials are a vendor's by their names.
type pooledCredentials struct {
	mu sync.Mutex
	by map[string]*pooled
}

// find returns a credential's entry; nil if it has none.
func (c *pooledCredentials) find(name string) *pooled {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.by[name]
}

// findOrMake returns the entry of a call's credential; nil for one that is in no pool.
func (c *pooledCredentials) findOrMake(name string) *pooled {
	if name == "" {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	p := c.by[name]
	if p == nil {
		if c.by == nil {
			c.by = make(map[string]*pooled)
		}
		p = new(pooled)
		c.by[name] = p
	}
	return p
}

// begin counts a call.
func (p *pooled) begin() {
	if p != nil {
		p.inFlight.Add(1)
	}
}

// content measures the first content of a stream.
func (p *pooled) content(by caller, took time.Duration, now time.Time) {
	if p != nil {
		p.beginning.add(by, took, now)
	}
}

// end counts the end of a call, and measures a good one.
func (p *pooled) end(by caller, good bool, took time.Duration, now time.Time) {
	if p == nil {
		return
	}
	p.inFlight.Add(-1)
	if good {
		p.answers.add(by, took, now)
	}
}
