package inference

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// race is the first call of a request and the second one that may join it, the hedge. Each call runs in a goroutine that
// owns its attempt until it sends it to results. The request's own goroutine decides; what the loser leaves behind is
// settled in a goroutine of its own, so that the winner's answer doesn't wait for it.
type race struct {
	ask     ask
	group   errgroup.Group
	results chan *attempt
	first   *attempt
	// second is nil until there is a hedge, for whose estimated cost the budget holds held.
	second *attempt
	plan   *plannedHedge
	held   price.Pico
	gate   atomic.Int32
	// losing is the attempt that another one outran, and lost is closed when it is settled. loser is the same if its call
	// was made.
	losing, loser *attempt
	lost          chan struct{}
}

// States of the gate before the hedge's call: its reservation may take a while, and the first call may answer meanwhile.
const (
	gateWaits int32 = iota
	gatePassed
	gateShut
)

// racer is the part of an attempt that belongs to a race.
type racer struct {
	cancel context.CancelCauseFunc
	// made reports whether the call was made, and err is its error, or that of the reservation.
	made bool
	err  error
	// incoming is the answer of a stream.
	incoming *incoming
	// try is the loser's record.
	try trace.Try
}

// called reports whether the hedge has called a candidate with its present credential.
func (h *race) called(c *candidate) bool {
	return h != nil && h.second != nil && h.gate.Load() == gatePassed &&
		h.second.Target == c.Target && h.second.credential.Fingerprint == c.credential.Fingerprint
}

// loserTarget returns the target of the call that lost; zero for none.
func (h *race) loserTarget() provider.Target {
	if h == nil || h.loser == nil {
		return provider.Target{}
	}
	return h.loser.Target
}

// raceOf makes a call that the planned hedge may join, and returns the verdict of both.
func (r *round) raceOf(ctx context.Context, made attempt, plan *plannedHedge) verdict {
	made.racer = &racer{}
	h := &race{ask: r.ask, results: make(chan *attempt, 2), first: &made, plan: plan, lost: make(chan struct{})}
	r.race, r.present = h, h.first
	began := time.Now()
	r.start(ctx, h.first)
	timer := time.NewTimer(plan.after)
	defer timer.Stop()
	var got *attempt
	select {
	case got = <-h.results:
	case <-timer.C:
		r.join(ctx)
		got = <-h.results
	}
	r.upstream += time.Since(began)
	if got == h.second && got.racer.err != nil {
		r.dropSecond(ctx)
		got = r.other()
		return r.conclude(ctx, got, got.racer.err)
	}
	switch {
	case h.second == nil:
		return r.conclude(ctx, got, got.racer.err)
	case got.racer.err != nil:
		return r.firstFailed(ctx)
	}
	r.wins(ctx, got)
	return r.conclude(ctx, got, nil)
}

// start makes the call of an attempt in the race.
func (x *execution) start(ctx context.Context, a *attempt) {
	h := x.race
	ctx, a.racer.cancel = context.WithCancelCause(ctx)
	h.group.Go(panics.Guard(func() error {
		defer func() { h.results <- a }()
		if a != h.first {
			if a.racer.err = x.reserveSecond(ctx, a); a.racer.err != nil {
				return nil
			}
		}
		a.racer.made = true
		err := x.call(ctx, a, h.ask)
		if errors.Is(err, context.Canceled) && errors.Is(context.Cause(ctx), errHedged) {
			err = fmt.Errorf("%w: %w", errHedged, err)
		}
		a.racer.err = err
		return nil
	}))
}

// join starts the hedge, if there is room and money for it. Both vendors must be well: where everything is slow, a
// second call only adds load.
func (r *round) join(ctx context.Context) {
	h := r.race
	c, budget := &h.plan.candidate, r.engine.hedges.of(h.plan.rule.Goal)
	if !r.engine.Health.Spares(h.first.Target, r.request.Organization) {
		r.engine.metrics.hedge(c.Provider, hedgeNoRoom)
		return
	}
	held := r.hedgeCost(c, budget)
	if !budget.Take(held, h.plan.rule.BudgetPercent, time.Now()) {
		r.engine.metrics.hedge(c.Provider, hedgeNoBudget)
		return
	}
	asked := r.asks(c, false)
	asked.Spare = true
	permit, booked, refused := r.acquire(ctx, c, asked)
	if refused != nil {
		budget.Settle(held, 0)
		r.engine.metrics.hedge(c.Provider, hedgeNoRoom)
		return
	}
	r.attempts++
	h.held = held
	h.second = &attempt{
		candidate: *c, id: newID(), number: r.attempts, grace: 1, permit: permit, booked: booked, racer: &racer{},
		hold: r.engine.Memory.Open(r.request.Organization, largest[r.request.Route.Operation]),
	}
	r.start(memory.NewContext(ctx, h.second.hold), h.second)
}

// errOutrun is the error of a hedge whose call was not made because the first one answered.
var errOutrun = errors.New("the first call answered before the second was made")

// reserveSecond reserves the worst case of the hedge, beside that of the first call.
func (x *execution) reserveSecond(ctx context.Context, a *attempt) error {
	if x.reserves() {
		if err := x.grant.Reserve(ctx, a.id, x.reservation); err != nil {
			return err
		}
	}
	if !x.race.gate.CompareAndSwap(gateWaits, gatePassed) {
		return errOutrun
	}
	x.engine.metrics.attempt(a.Provider, attemptHedge)
	return nil
}

// other waits for the other attempt of the race.
func (r *round) other() *attempt {
	began := time.Now()
	defer func() { r.upstream += time.Since(began) }()
	return <-r.race.results
}

// wins makes an attempt that has answered the request's own, and ends the other one.
func (r *round) wins(ctx context.Context, a *attempt) {
	h := r.race
	if a == h.first {
		r.outrun(ctx, h.second)
		return
	}
	r.engine.metrics.hedge(a.Provider, hedgeWon)
	r.outrun(ctx, h.first)
	r.present = a
	r.rename(a.id)
}

// firstFailed returns the verdict after the first call has failed while the hedge was in flight. The hedge takes its
// place, unless the request has ended or is itself at fault.
func (r *round) firstFailed(ctx context.Context) verdict {
	h := r.race
	v := r.conclude(ctx, h.first, h.first.racer.err)
	if v != next {
		r.outrun(ctx, h.second)
		return v
	}
	second := r.other()
	if second.racer.err != nil && !second.racer.made {
		r.dropSecond(ctx)
		return next
	}
	if r.billed != nil {
		r.engine.spent(&r.billed.report)
	}
	if r.grant != nil {
		r.grant.Settle(h.first.id, r.recorded)
	}
	r.taken.Add(r.billedTokens())
	r.billed, r.recorded = nil, false
	r.engine.hedges.of(h.plan.rule.Goal).Settle(h.held, 0) // A call after one that failed is no hedge.
	r.present = second
	r.rename(second.id)
	outcome := hedgeWon
	if second.racer.err != nil {
		outcome = hedgeFailed
	}
	r.engine.metrics.hedge(second.Provider, outcome)
	return r.conclude(ctx, second, second.racer.err)
}

// dropSecond records a hedge that was not made, or that failed while the first call was still in flight.
func (r *round) dropSecond(ctx context.Context) {
	h := r.race
	a := h.second
	if !a.racer.made {
		r.attempts--
		r.engine.metrics.hedge(a.Provider, hedgeNoReservation)
		r.settleLoser(ctx, h, a)
		a.racer.cancel(nil)
		h.second = nil
		return
	}
	r.engine.metrics.hedge(a.Provider, hedgeFailed)
	r.billLoser(ctx, h, a)
	a.hold.Close()
	if _, own := errors.AsType[*apierr.Error](a.racer.err); !own && r.over(ctx) == nil {
		r.fail(ctx, a, a.racer.err)
		return
	}
	r.record.called(a, trace.TryCancelled, nil)
	a.call.fail(ctx, r.engine.metrics, string(ledger.OutcomeCancelled), time.Now())
	a.permit.End(ctx, health.Verdict{})
}
