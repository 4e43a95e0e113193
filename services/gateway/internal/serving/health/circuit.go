package health

import (
	"context"
	"sync"
	"time"
)

// remembered changes of a circuit.
const remembered = 8

// circuit is the breaker for all calls of a model family, with those for single
// organizations: see share.go.
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

// heldBack takes a change of one organization's breaker. That of the only caller
// is the circuit's.
func (c *circuit) heldBack(ctx context.Context, t *tenant, change Change) {
	if c.tenants.alone.Load() == t {
		c.remember(change)
	}
	c.onTransition(ctx, c.name, t, change)
}

// pass is what lets a call through a circuit.
type pass struct {
	grant

	// own is its organization's turn at hold, where that one has a breaker.
	own  grant
	hold *breaker
}

// acquire lets a call of an organization through, or says when to ask again. lease
// is asked once for each probe, with 0 or the organization that it is for.
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

// giveUp takes a probe of the organization's own back that is not made.
func (c *circuit) giveUp(ctx context.Context, p pass) {
	if p.own.probe {
		p.hold.step(ctx, Event{Kind: Voided})
	}
}

// causeOf is why an organization is held back: the circuit is open where there is
// no other caller.
func (c *circuit) causeOf(organization uint64) Cause {
	if alone := c.tenants.alone.Load(); alone != nil && alone.id == organization {
		return CauseOpen
	}
	return CauseHeld
}

// passable reports, without changing anything, whether a call of an organization
// would get through, or else why not and when to ask.
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

// record takes what came of an organization's call, at a time since the monitor's
// begin.
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
	case alone != nil && alone != t: // Others are served.
		c.tenants.alone.CompareAndSwap(alone, nil)
	}
}

// judge looks, after a failure of an organization's call, whether the circuit opens
// for all, or for that one alone.
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

// failsAll reports whether the circuit opens for all.
func (c *circuit) failsAll(all Tally, at time.Duration) bool {
	return c.policy.fails(all, int(c.policy.Sample)) && c.policy.opens(all, c.tenants.parts(c.policy, at))
}

// shown is the state that operators see, and how many replicas report it: of all
// calls, or of the only caller's where that one is held back.
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

// heldNow counts the organizations that are held back.
func (c *circuit) heldNow() (n int) {
	for _, hold := range c.tenants.breakers() {
		if hold.now().Phase != Closed {
			n++
		}
	}
	return n
}
