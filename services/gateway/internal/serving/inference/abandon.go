package inference

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// abandon bills an attempt that ended before its answer began, after its request had been sent to the vendor: because
// the caller closed the connection, the gateway ended the request, or a clock ran out. The vendor goes on working, or
// bills what it did. An attempt that the vendor refused or failed itself is not billed, except for the other calls of a
// request that takes several.
func (x *execution) abandon(ctx context.Context, a *attempt, err error) {
	if outcome, arrived := x.owed(ctx, a, err); outcome != "" {
		x.bill(ctx, &a.candidate, outcome, arrived)
	}
}

// owed returns what is billed of an attempt that ended with err and whose answer is not served; an empty outcome is
// nothing.
func (x *execution) owed(ctx context.Context, a *attempt, err error) (ledger.Outcome, tally) {
	outcome := x.givenUp(ctx, a, err)
	if partial, ok := errors.AsType[*provider.PartialError](err); ok {
		a.answered = true // A repeated call to the same vendor would bill the request twice.
		return cmp.Or(outcome, ledger.OutcomeInterrupted), tally{usage: &partial.Usage, counted: partial.Estimated}
	}
	if outcome == "" || !a.call.receipt.Sent() {
		return "", tally{}
	}
	return outcome, a.arrived
}

// bill records an attempt whose answer was not served.
func (x *execution) bill(ctx context.Context, of *candidate, outcome ledger.Outcome, arrived tally) {
	if x.request.ImageRequest.Prompt != "" {
		arrived.images = max(x.request.ImageRequest.Count, 1) // The request determines their price.
	}
	x.billed, x.recorded = x.commit(ctx, charge{id: x.id, of: of, attempts: x.attempts, outcome: outcome, tally: arrived})
	x.billed.abandoned = true
}

// givenUp returns the outcome of an attempt that ended with err; empty where its vendor ended it, and for a stream
// whose clock ran out before the vendor had acknowledged the request.
func (x *execution) givenUp(ctx context.Context, a *attempt, err error) ledger.Outcome {
	if errors.Is(err, errBeyondLimit) || errors.Is(err, budget.ErrOutgrown) {
		return ledger.OutcomeAborted
	}
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Status != 0 && e.Status/100 != 2 {
		return ""
	}
	if errors.Is(err, errHedged) {
		return ledger.OutcomeInterrupted
	}
	if ctx.Err() != nil && !errors.Is(context.Cause(ctx), errTotal) {
		if errors.Is(err, context.Cause(ctx)) || errors.Is(err, ctx.Err()) {
			return outcomeOf(ctx)
		}
		return ""
	}
	for _, clock := range []error{errAnswer, errFirstToken, errIdle, errTotal} {
		if errors.Is(err, clock) && (a.answered || !x.streams) {
			return ledger.OutcomeInterrupted
		}
	}
	return ""
}

// renew prepares another attempt after one that was billed: the row of that one took the place of the reservation, so
// that the worst case is reserved once more.
func (x *execution) renew(ctx context.Context) error {
	if x.billed == nil {
		return nil
	}
	x.engine.spent(&x.billed.report)
	recorded := x.recorded
	x.taken.Add(x.billedTokens())
	x.billed, x.recorded = nil, false
	if !recorded {
		return errLedgerAway
	}
	if x.grant != nil {
		x.grant.Settle(x.id, true)
	}
	x.rename(newID())
	if !x.reserves() {
		return nil
	}
	return x.grant.Reserve(ctx, x.id, x.reservation)
}

// rename sets the id of the request's ledger row.
func (x *execution) rename(id uuid.UUID) {
	x.id = id
	if x.record != nil {
		x.record.ID = id
	}
}
