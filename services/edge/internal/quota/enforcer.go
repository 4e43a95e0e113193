package quota

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/platform/apierr"
)

// Plans finds plans by their names, see plan.Watcher.
type Plans interface {
	Plan(name string) *plan.Plan
}

// Window is a window of a holder in the stores.
type Window struct {
	// Organization and Key are what calls count under; Key is the first of a chain of rotations, empty for the whole
	// organization.
	Organization, Key string
	Meter             plan.Meter
	Period            plan.Period
	// Metrics are those that count; nil means all.
	Metrics    []string
	Start, End time.Time
}

// Report is what a replica has counted in a window since its last report.
type Report struct {
	Window

	Delta int64
	// Base is what the window holds at least, before Delta; negative for unknown.
	Base int64
}

// Shared holds the counts of all replicas. It may lose them.
type Shared interface {
	// Add adds each report to its window, which it raises to the report's base before, and returns what the windows then
	// hold, in the same order. A window that it does not know, and a report has no base for, stays unknown: its count is
	// negative.
	Add(ctx context.Context, reports []Report) (counts []int64, err error)
}

// Durable holds what was counted for good.
type Durable interface {
	// Counted returns the count of each window, in the same order.
	Counted(ctx context.Context, windows []Window) (counts []int64, err error)
	// Spent returns what was spent in each window, in the same order: tokens, pico-USD for cents, and for credits what
	// the organization has left, below zero. What the windows'
	// organizations spend is followed from then on.
	Spent(ctx context.Context, windows []Window) (amounts []int64, err error)
}

// Enforcer holds calls to plans. It is safe for concurrent use.
type Enforcer struct {
	plans    Plans
	standard string
	shared   Shared
	durable  Durable

	mu      sync.RWMutex
	holders map[holderID]*holder
	dueMu   sync.Mutex
	due     []*holder
	work    chan struct{} // something is due
	urgent  chan struct{} // a call waits for it
	// The following are in Unix nanoseconds: until then no call waits for a settlement, Redis is not tried, and windows are
	// not compared.
	bypassUntil, awayUntil, uncountedUntil atomic.Int64
}

// New returns an Enforcer; the caller has to start Run. standard is the plan of organizations without one, empty for
// none. Without shared, replicas learn from durable alone what others count.
func New(plans Plans, standard string, shared Shared, durable Durable) *Enforcer {
	return &Enforcer{
		plans: plans, standard: standard, shared: shared, durable: durable,
		holders: make(map[holderID]*holder), work: make(chan struct{}, 1), urgent: make(chan struct{}, 1),
	}
}

// sharing reports whether counts are settled with other replicas.
func (x *Enforcer) sharing(now time.Time) bool {
	return x.shared != nil && now.UnixNano() >= x.awayUntil.Load()
}

// held are the plans of a call, nil for none.
type held struct{ key, organization *plan.Plan }

func (x *Enforcer) held(c Caller) (p held) {
	if c.KeyPlan != "" {
		p.key = x.plans.Plan(c.KeyPlan)
	}
	name := c.OrganizationPlan
	if name == "" {
		name = x.standard
	}
	if name != "" {
		p.organization = x.plans.Plan(name)
	}
	return p
}

// Take counts a call under its key and organization, or refuses it with an apierr that contains the wait. A refused call
// counts nowhere. A call that would overdraw a lease, or is the first of its holder, waits for the settlement, for at most
// waitTime. Take allocates nothing for a holder that was seen recently, unless a soft or metered limit is exceeded.
func (x *Enforcer) Take(ctx context.Context, c Caller, use Use) (Verdict, error) {
	plans := x.held(c)
	if use == 0 || plans == (held{}) {
		return Verdict{}, nil
	}
	for budget := waitTime; ; {
		v, settled := x.try(c, plans, use, budget > 0)
		if settled == nil {
			return v, v.refusal()
		}
		asked := time.Now()
		x.wait(ctx, settled)
		budget -= time.Since(asked)
	}
}

// try makes one decision. If it has to wait for a settlement, and the caller is willing to, it returns the channel to wait
// for instead.
func (x *Enforcer) try(c Caller, plans held, use Use, willing bool) (v Verdict, settled <-chan struct{}) {
	k, o := x.lock(c, plans.key, true), x.lock(c, plans.organization, false) // always in this order
	defer unlock(k)
	defer unlock(o)
	now := time.Now()
	willing = willing && now.UnixNano() >= x.bypassUntil.Load()
	waits := func(h *holder, p *plan.Plan, ofKey bool) bool {
		if h == nil {
			return false
		}
		h.called = now
		if h.decide(p, use, ofKey, x.sharing(now), now, &v) || !willing {
			return false
		}
		settled = h.wait()
		x.enqueue(h)
		return true
	}
	if waits(k, plans.key, true) || waits(o, plans.organization, false) {
		return v, settled
	}
	if v.Refused.Limit != nil {
		refuse(k, o, v.Refused.OfKey, now)
		x.refresh(k, now)
		x.refresh(o, now)
		return v, nil
	}
	x.count(k, plans.key, use, true, &v)
	x.count(o, plans.organization, use, false, &v)
	return v, nil
}

// count counts an admitted call and queues its report.
func (x *Enforcer) count(h *holder, p *plan.Plan, use Use, ofKey bool, v *Verdict) {
	if h == nil {
		return
	}
	h.refusedSince = time.Time{}
	urgent := h.count(p, use, ofKey, v)
	x.enqueue(h)
	if urgent {
		signal(x.urgent)
	}
}

// refresh queues a holder that refuses calls from time to time: other replicas may have given calls back.
func (x *Enforcer) refresh(h *holder, now time.Time) {
	if h != nil && now.Sub(h.settledAt) >= refreshEvery {
		x.enqueue(h)
	}
}

// GiveBack takes back n calls that were admitted at a moment and then failed.
func (x *Enforcer) GiveBack(c Caller, use Use, n int64, at time.Time) {
	plans := x.held(c)
	if use == 0 || plans == (held{}) {
		return
	}
	k, o := x.lock(c, plans.key, true), x.lock(c, plans.organization, false)
	defer unlock(k)
	defer unlock(o)
	for _, h := range []*holder{k, o} {
		if h != nil && h.giveBack(use, n, at) {
			x.enqueue(h)
		}
	}
}

// Limits returns the states of all limits that hold for a caller, those of the key first.
func (x *Enforcer) Limits(ctx context.Context, c Caller) []State {
	plans := x.held(c)
	if plans == (held{}) {
		return nil
	}
	for budget := waitTime; ; {
		states, settled := x.look(c, plans, budget > 0)
		if settled == nil {
			return states
		}
		asked := time.Now()
		x.wait(ctx, settled)
		budget -= time.Since(asked)
	}
}

// look returns the states of all limits, or the channel to wait for as try does.
func (x *Enforcer) look(c Caller, plans held, willing bool) (states []State, settled <-chan struct{}) {
	k, o := x.lock(c, plans.key, true), x.lock(c, plans.organization, false)
	defer unlock(k)
	defer unlock(o)
	now := time.Now()
	for _, of := range []struct {
		h *holder
		p *plan.Plan
	}{{k, plans.key}, {o, plans.organization}} {
		if of.h == nil {
			continue
		}
		of.h.called = now
		var v Verdict
		known := of.h.decide(of.p, allMeters, of.h == k, false, now, &v)
		if fresh := known && now.Sub(of.h.settledAt) < refreshEvery; !fresh && willing && now.UnixNano() >= x.bypassUntil.Load() {
			x.enqueue(of.h)
			return nil, of.h.wait()
		}
		for i := range of.p.Limits {
			l := &of.p.Limits[i]
			states = append(states, of.h.at(l).state(l, of.h == k))
		}
	}
	return states, nil
}

// allMeters is the use of every meter.
const allMeters Use = 1<<len(meters) - 1

// Plan returns the names of the plans that hold for a caller; empty for none.
func (x *Enforcer) Plan(c Caller) (key, organization string) {
	p := x.held(c)
	if p.key != nil {
		key = p.key.Name
	}
	if p.organization != nil {
		organization = p.organization.Name
	}
	return key, organization
}

// lock returns the locked holder of a caller's key or organization; nil without a plan.
func (x *Enforcer) lock(c Caller, p *plan.Plan, ofKey bool) *holder {
	if p == nil {
		return nil
	}
	id := holderID{organization: c.Organization}
	if ofKey {
		id.key = c.Key
	}
	for {
		h := x.holder(id)
		h.mu.Lock()
		if !h.gone {
			return h
		}
		h.mu.Unlock()
	}
}

func (x *Enforcer) holder(id holderID) *holder {
	x.mu.RLock()
	h := x.holders[id]
	x.mu.RUnlock()
	if h != nil {
		return h
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if h = x.holders[id]; h == nil {
		h = &holder{holderID: id}
		x.holders[id] = h
	}
	return h
}

func unlock(h *holder) {
	if h != nil {
		h.mu.Unlock()
	}
}

// enqueue makes a locked holder due.
func (x *Enforcer) enqueue(h *holder) {
	if h.due {
		return
	}
	h.due = true
	x.dueMu.Lock()
	x.due = append(x.due, h)
	x.dueMu.Unlock()
	signal(x.work)
}

// refusal returns the error of a refused call, nil for an admitted one.
func (v *Verdict) refusal() error {
	s := v.Refused
	if s.Limit == nil {
		return nil
	}
	if s.Meter == plan.Credits {
		e := apierr.New(apierr.KindForbidden, ReasonCreditsExhausted, "the prepaid credits of this organization are used up or have expired")
		e.Class = apierr.ClassPolicy
		return e
	}
	who := "this organization"
	if s.OfKey {
		who = "this API key"
	}
	e := apierr.New(apierr.KindRateLimited, ReasonExceeded,
		fmt.Sprintf("%s has used up the %d %s of its plan in this %s, which ends at %s", who, s.Amount, s.Meter, s.Period, s.End().Format(time.RFC3339)))
	e.Class = apierr.ClassPolicy // A client that retries automatically would retry until the window ends.
	e.RetryAfter = max(time.Second, time.Until(s.End()))
	return e
}

// signal sends to a channel of capacity one, unless a signal is pending.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
