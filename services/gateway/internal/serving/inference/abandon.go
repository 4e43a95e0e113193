package inference

import (
	"cmp"
	"context"
	"errors"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// abandon bills an attempt that was given up before its answer began, once its
// request had gone to the vendor: by its caller, from outside, or by a clock. The
// vendor works on, or bills what it did. What it refused, or failed itself, is not
// billed, but for the other calls of a request that takes several.
func (x *execution) abandon(ctx context.Context, c candidate, err error) {
	outcome := x.givenUp(ctx, err)
	if partial, ok := errors.AsType[*provider.PartialError](err); ok {
		x.answered = true // It is not repeated at the same vendor, which would bill it twice.
		x.bill(ctx, c, cmp.Or(outcome, ledger.OutcomeInterrupted), tally{usage: &partial.Usage, counted: partial.Estimated})
		return
	}
	if outcome == "" || !x.call.receipt.Sent() {
		return
	}
	x.bill(ctx, c, outcome, x.arrived)
}

// bill records an attempt that nothing was served of.
func (x *execution) bill(ctx context.Context, c candidate, outcome ledger.Outcome, arrived tally) {
	if x.request.ImageRequest.Prompt != "" {
		arrived.images = max(x.request.ImageRequest.Count, 1) // Their price was settled by the request.
	}
	served := x.served
	x.served = c
	x.settle(ctx, outcome, arrived)
	x.billed.abandoned = true
	x.served = served
}

// givenUp is how an attempt that ended with err is recorded; empty where its vendor
// ended it. A stream whose vendor had not even acknowledged the request when its
// clock ran out was not at work.
func (x *execution) givenUp(ctx context.Context, err error) ledger.Outcome {
	if errors.Is(err, errBeyondLimit) || errors.Is(err, budget.ErrOutgrown) {
		return ledger.OutcomeAborted
	}
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Status != 0 && e.Status/100 != 2 {
		return ""
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTotal) {
		if errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()) {
			return left(ctx)
		}
		return ""
	}
	for _, clock := range []error{errAnswer, errFirstToken, errIdle, errTotal} {
		if errors.Is(err, clock) && (x.answered || !x.streams) {
			return ledger.OutcomeInterrupted
		}
	}
	return ""
}

// renew makes ready for another attempt where the last one was billed: its row took
// the place of what was set aside, so that the worst case is set aside once more.
func (x *execution) renew(ctx context.Context) error {
	if x.billed == nil {
		return nil
	}
	x.engine.metrics.spent(&x.billed.report)
	recorded := x.recorded
	x.billed, x.recorded = nil, false
	if !recorded {
		return errLedgerAway
	}
	x.id = newID()
	if x.record != nil {
		x.record.ID = x.id
	}
	if !x.reserves() {
		return nil
	}
	return x.grant.Reserve(ctx, x.id, x.reservation)
}
