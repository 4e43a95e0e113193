package health

import (
	"context"
	"sync"
	"time"
)

// remembered is how many changes of a circuit are kept.
const remembered = 8

// circuit is the breaker for all calls of a model family, together with the breakers for single organizations; see
// share.go.
type circuit struct {
	breaker

	name         Circuit
	onTransition func(ctx context.Context, c Circuit, held *tenant, change Change)
	credentials  credentials
	tenants      tenants

	history sync.Mutex
	changes []Change
}

func newCircuit(name Circuit, p Policy, onTransition func(context.Context, Circuit, *tenant, Change)) *circuit {
	c := &circuit{name: name, onTransition: onTransition, breaker: breaker{policy: p, window: newWindow(p.Window, windowSlots)}}
	c.tenants.clear()
	c.renewed = c.tenants.clear
	c.changed = func(ctx context.Context, change Change) {
		c.remember(change)
		c.onTransition(ctx, c.name, nil, change)
	}
	return c
}

func (c *circuit) remember(change Change) {
	c.history.Lock()
	defer c.history.Unlock()
	if len(c.changes) == remembered {
		c.changes = append(c.changes[:0], c.changes[1:]...)
	}
	c.changes = append(c.changes, change)
}

// tenantChanged reports a change of one organization's breaker. A change for the only caller is recorded as the
// circuit's.
func (c *circuit) tenantChanged(ctx context.Context, t *tenant, change Change) {
	if c.tenants.alone.Load() == t {
		c.remember(change)
	}
	c.onTransition(ctx, c.name, t, change)
}

// pass lets a call through a circuit.
type pass struct {
	grant

	// own is the grant of hold, the organization's own breaker; hold is nil where it has none.
	own  grant
	hold *breaker
}

// acquire lets an organization's call through, or returns why not and when to ask again. It calls lease once for each
// probe, with 0 or with the organization that the probe is for.
func (c *circuit) acquire(ctx context.Context, organization uint64, lease func(ctx context.Context, of uint64) bool) (p pass, r *Refusal) {
	if p.hold = c.tenants.held(organization); p.hold != nil {
		own, wait, ok := p.hold.acquire(ctx, organization, func(ctx context.Context) bool { return lease(ctx, organization) })
		if !ok {
			return pass{}, &Refusal{Cause: c.causeOf(organization), RetryAfter: wait}
		}
		p.own = own
	}
	shared, wait, ok := c.breaker.acquire(ctx, organization, func(ctx context.Context) bool { return lease(ctx, 0) })
	if !ok {
		c.giveUp(ctx, p)
		return pass{}, &Refusal{Cause: CauseOpen, RetryAfter: wait}
	}
	p.grant = shared
	return p, nil
}

// giveUp voids the probe of the organization's own breaker when the call is not made.
func (c *circuit) giveUp(ctx context.Context, p pass) {
	if p.own.probe {
		p.hold.step(ctx, Event{Kind: Voided})
	}
}

// causeOf returns why an organization is held back: its circuit counts as open where it is the only caller.
func (c *circuit) causeOf(organization uint64) Cause {
	if alone := c.tenants.alone.Load(); alone != nil && alone.id == organization {
		return CauseOpen
	}
	return CauseHeld
}

// passable returns nil if an organization's call would get through, or else why not and when to ask again. It changes
// nothing.
func (c *circuit) passable(organization uint64, now time.Time) *Refusal {
	if hold := c.tenants.held(organization); hold != nil {
		if wait, ok := hold.passable(organization, now); !ok {
			return &Refusal{Cause: c.causeOf(organization), RetryAfter: wait}
		}
	}
	if wait, ok := c.breaker.passable(organization, now); !ok {
		return &Refusal{Cause: CauseOpen, RetryAfter: wait}
	}
	return nil
}

// record counts the outcome of an organization's call; at is the time since the monitor's base.
func (c *circuit) record(ctx context.Context, p pass, by caller, v Verdict, at time.Duration) {
	if p.own.probe && p.own.generation == p.hold.generation.Load() {
		p.hold.step(ctx, v.probe())
	}
	switch {
	case p.generation != c.generation.Load():
		return
	case p.probe:
		c.step(ctx, v.probe())
		return
	case v.Outcome != Good && v.Outcome != Bad:
		return
	}
	bad := v.Outcome == Bad
	c.window.add(at, bad)
	if by.id == 0 {
		if bad && c.failsAll(c.window.tally(at, c.policy.Window), at) {
			c.step(ctx, v.tripped())
		}
		return
	}
	t := c.tenants.findOrMake(by, c.policy, bad, at)
	t.part.add(at, bad)
	hold := t.hold.Load()
	if hold != nil && !p.own.probe && p.hold == hold && p.own.generation == hold.generation.Load() {
		hold.window.add(at, bad)
	}
	switch alone := c.tenants.alone.Load(); {
	case bad:
		c.judge(ctx, t, v, at)
	case alone != nil && alone != t: // Another organization is served.
		c.tenants.alone.CompareAndSwap(alone, nil)
	}
}

// judge decides, after a failed call of an organization, whether the circuit opens for all organizations or for that
// one alone.
func (c *circuit) judge(ctx context.Context, t *tenant, v Verdict, at time.Duration) {
	all := c.window.tally(at, c.policy.Window)
	if c.failsAll(all, at) {
		c.step(ctx, v.tripped())
		return
	}
	part := t.part.tally(at, c.policy.Window)
	own := part
	if hold := t.hold.Load(); hold != nil {
		own = hold.window.tally(at, c.policy.Window)
	}
	if !c.policy.fails(own, int(c.policy.Sample)) {
		return
	}
	hold := c.breakerOf(t)
	if hold == nil {
		return
	}
	if part.Calls >= all.Calls {
		c.tenants.alone.Store(t)
	} else {
		c.tenants.alone.CompareAndSwap(t, nil)
	}
	hold.step(ctx, v.tripped())
}

// failsAll reports whether the circuit opens for all organizations.
func (c *circuit) failsAll(all Tally, at time.Duration) bool {
	return c.policy.fails(all, int(c.policy.Sample)) && c.policy.opens(all, c.tenants.parts(c.policy, at))
}

// shown returns the state that operators see and how many replicas report it: the state for all calls, or for the only
// caller where that one is held back.
func (c *circuit) shown() (s State, openReplicas int) {
	if s = c.now(); s.Phase == Closed {
		if alone := c.tenants.alone.Load(); alone != nil {
			if hold := alone.hold.Load(); hold != nil {
				return hold.now(), hold.openReplicas()
			}
		}
	}
	return s, c.openReplicas()
}

// heldNow returns the number of organizations that are held back.
func (c *circuit) heldNow() (n int) {
	for _, hold := range c.tenants.breakers() {
		if hold.now().Phase != Closed {
			n++
		}
	}
	return n
}
