package inference

import (
	"context"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/panics"
)

// loserTime bounds the wait, at the end of a request, for the call that lost: its context has been cancelled long ago,
// and what is left is its ledger row.
const loserTime = 2 * time.Second

// codeHedged is the code of a call that was ended because another one answered first, in traces and metrics.
const codeHedged = "hedged"

// outrun ends the call of an attempt at once, and settles it when the call has returned.
func (r *round) outrun(ctx context.Context, a *attempt) {
	h, x := r.race, r.execution
	if a == h.first || !h.gate.CompareAndSwap(gateWaits, gateShut) {
		h.loser = a
	} else {
		r.attempts--
	}
	h.losing = a
	a.racer.cancel(errHedged)
	h.group.Go(panics.Guard(func() error {
		defer close(h.lost)
		<-h.results
		x.settleLoser(ctx, h, a)
		return nil
	}))
}

// settleLoser settles an attempt that another one outran: its ledger row, its reservation and its permit. It changes
// nothing of the execution.
func (x *execution) settleLoser(ctx context.Context, h *race, a *attempt) {
	if a != h.first {
		defer a.hold.Close()
	}
	x.billLoser(ctx, h, a)
	if !a.racer.made {
		a.permit.End(ctx, health.Verdict{})
		return
	}
	if a != h.first {
		x.engine.metrics.hedge(a.Provider, hedgeLost)
	}
	a.permit.Lose(ctx, x.streams)
	a.racer.try = tryOf(a, trace.TryCancelled, &failure{Error: &provider.Error{Code: codeHedged}})
	a.call.fail(ctx, x.engine.metrics, codeHedged, time.Now())
}

// billLoser bills an attempt beside the one that serves: what its vendor reported, or an estimate.
func (x *execution) billLoser(ctx context.Context, h *race, a *attempt) {
	outcome, arrived := ledger.Outcome(""), tally{}
	switch {
	case !a.racer.made:
		a.booked.cancel()
	case a.racer.err != nil:
		outcome, arrived = x.owed(ctx, a, a.racer.err)
	case a.racer.incoming != nil:
		outcome, arrived = ledger.OutcomeInterrupted, a.racer.incoming.drop()
	default:
		outcome, arrived = ledger.OutcomeInterrupted, a.whole()
		arrived.whole = true
	}
	var cost price.Pico
	recorded := false
	if outcome != "" {
		var b *bill
		b, recorded = x.commit(ctx, charge{id: a.id, of: &a.candidate, attempts: a.number, outcome: outcome, tally: arrived})
		x.engine.spent(&b.report)
		cost = b.worth()
		x.taken.Add(b.tokens())
		a.booked.settle(b.tokens())
	}
	a.booked.settle(0)
	if x.grant != nil {
		x.grant.Settle(a.id, recorded)
	}
	x.engine.hedges.of(h.plan.rule.Goal).Settle(h.held, cost)
}

// drop closes a stream that is not served, and returns what has arrived.
func (s *incoming) drop() tally {
	s.timer.stop()
	s.cancel(errHedged)
	_ = s.upstream.Close()
	return s.tally
}

// endRace waits until the loser of a race is settled, and records it. The contexts of both calls end here.
func (x *execution) endRace(ctx context.Context) {
	h := x.race
	if h == nil {
		return
	}
	defer h.first.racer.cancel(nil)
	if h.second != nil {
		defer h.second.racer.cancel(nil)
	}
	if h.losing != nil {
		timer := time.NewTimer(loserTime)
		defer timer.Stop()
		select {
		case <-h.lost:
		case <-timer.C:
			x.engine.Log.ErrorContext(ctx, "a call that was cancelled does not end; the answer doesn't wait for its ledger row",
				slog.String("provider", h.losing.Provider), slog.String("model", h.losing.Model))
			if x.grant != nil {
				x.grant.Settle(h.losing.id, false)
			}
			return
		}
	}
	if err := h.group.Wait(); err != nil {
		x.engine.Log.ErrorContext(ctx, "a call of a race failed", slog.String("error", err.Error()))
	}
	if h.loser != nil && h.loser.racer.try.Outcome != "" { // It is empty after a panic.
		x.record.lost(h.loser.racer.try)
	}
}

// close gives back the memory of the hedge's answer.
func (h *race) close() {
	if h != nil && h.second != nil {
		h.second.hold.Close()
	}
}
