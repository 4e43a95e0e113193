package health

import (
	"context"
	"maps"
	"sync"
	"sync/atomic"
	"time"
)

// Bounds of what a circuit keeps for organizations. Organizations beyond maxTenants are counted together, as one that
// is never held back.
const (
	maxTenants = 1024
	maxHolds   = 64
)

// tenant is one organization at a circuit.
type tenant struct {
	caller

	// part is the share of the circuit's window that its calls make up.
	part window
	// hold is the breaker for its calls alone; nil until they fail too often.
	hold atomic.Pointer[breaker]
}

// tenants holds the organizations that called recently, up to maxTenants. Reads take no lock.
type tenants struct {
	by atomic.Pointer[map[uint64]*tenant]
	// holds is how many of them have a breaker of their own. While it is 0, calls look none up.
	holds atomic.Int32
	// alone is the organization that was held back while no other organization called; nil for none.
	alone atomic.Pointer[tenant]

	mu    sync.Mutex
	rest  *tenant
	swept time.Duration
}

// clear removes all organizations.
func (ts *tenants) clear() {
	ts.mu.Lock()
	defer ts.mu.Unlock()
	ts.by.Store(&map[uint64]*tenant{})
	ts.holds.Store(0)
	ts.alone.Store(nil)
	ts.rest, ts.swept = nil, 0
}

func (ts *tenants) find(id uint64) *tenant { return (*ts.by.Load())[id] }

// held returns the breaker of an organization; nil if it has none.
func (ts *tenants) held(id uint64) *breaker {
	if ts.holds.Load() == 0 || id == 0 {
		return nil
	}
	if t := ts.find(id); t != nil {
		return t.hold.Load()
	}
	return nil
}

// breakers returns the breakers of the organizations that have one, by organization number.
func (ts *tenants) breakers() map[uint64]*breaker {
	if ts.holds.Load() == 0 {
		return nil
	}
	all := make(map[uint64]*breaker)
	for id, t := range *ts.by.Load() {
		if hold := t.hold.Load(); hold != nil {
			all[id] = hold
		}
	}
	return all
}

// findOrMake returns the record of an organization, at a time since the monitor's base. If there are maxTenants, it
// first removes those with few failures, at most once in a tenth of the window, or ten times as often for a caller
// whose call failed; if that frees no entry it returns the shared record of all others.
func (ts *tenants) findOrMake(by caller, p Policy, bad bool, at time.Duration) *tenant {
	if t := ts.find(by.id); t != nil {
		return t
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	known := *ts.by.Load()
	if t := known[by.id]; t != nil {
		return t
	}
	pause := p.Window / windowSlots
	if bad {
		pause /= 10
	}
	if len(known) >= maxTenants && at-ts.swept >= pause {
		ts.swept = at
		known = ts.sweep(known, p, at)
	}
	if len(known) >= maxTenants {
		if ts.rest == nil {
			ts.rest = &tenant{part: newWindow(p.Window, windowSlots)}
		}
		return ts.rest
	}
	t := &tenant{caller: by, part: newWindow(p.Window, windowSlots)}
	next := maps.Clone(known)
	next[by.id] = t
	ts.by.Store(&next)
	return t
}

// sweep keeps the organizations that are held back or close to it. The calls of the others count only in the circuit's
// sum from then on. The caller holds the lock.
func (ts *tenants) sweep(known map[uint64]*tenant, p Policy, at time.Duration) map[uint64]*tenant {
	next := maps.Clone(known)
	maps.DeleteFunc(next, func(_ uint64, t *tenant) bool {
		if p.fails(t.part.tally(at, p.Window), int(p.Sample+1)/2) {
			return false
		}
		hold := t.hold.Load()
		if hold != nil && hold.now().Phase != Closed {
			return false
		}
		if hold != nil {
			ts.holds.Add(-1)
		}
		return true
	})
	ts.by.Store(&next)
	return next
}

// parts returns the tallies of all organizations.
func (ts *tenants) parts(p Policy, at time.Duration) []Tally {
	known := *ts.by.Load()
	parts := make([]Tally, 0, len(known)+1)
	for _, t := range known {
		parts = append(parts, t.part.tally(at, p.Window))
	}
	ts.mu.Lock()
	defer ts.mu.Unlock()
	if ts.rest != nil {
		parts = append(parts, ts.rest.part.tally(at, p.Window))
	}
	return parts
}

// breakerOf returns the breaker of an organization and makes it if needed; nil if there are maxHolds already.
func (c *circuit) breakerOf(t *tenant) *breaker {
	if hold := t.hold.Load(); hold != nil || t.id == 0 {
		return hold
	}
	c.tenants.mu.Lock()
	defer c.tenants.mu.Unlock()
	if hold := t.hold.Load(); hold != nil || c.tenants.holds.Load() >= maxHolds {
		return hold
	}
	hold := &breaker{policy: c.policy, window: newWindow(c.policy.Window, windowSlots)}
	hold.changed = func(ctx context.Context, change Change) { c.tenantChanged(ctx, t, change) }
	t.hold.Store(hold)
	c.tenants.holds.Add(1)
	return hold
}
