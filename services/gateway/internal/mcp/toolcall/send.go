package toolcall

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/panics"
)

// send makes the call, and goes on with it as long as the server asks for what the gateway can answer while the request
// lasts. Each round is recorded before the next one, and the last one before send returns.
func (x *execution) send(ctx context.Context) (upstream.Result, error) {
	x.ready = time.Now()
	if err := x.spend(ctx); err != nil {
		return upstream.Result{}, err
	}
	for {
		result, err := x.round(ctx)
		if err != nil && !x.sent {
			return upstream.Result{}, err
		}
		if err != nil || result.Kind != upstream.KindInputRequired {
			x.settle(ctx, result.IsError, err)
			return result, err
		}
		goesOn, err := x.require(ctx, &result)
		switch {
		case err != nil:
			x.broken = true
			x.settle(ctx, false, err)
			return upstream.Result{}, err
		case !goesOn: // The approval is settled by the last round.
			return result, nil
		}
	}
}

// spend uses up what the call may be made with once: its approval, or the state of the round before.
func (x *execution) spend(ctx context.Context) error {
	if x.last != nil {
		return x.claimRound(ctx)
	}
	if x.claim == nil {
		return nil
	}
	within := x.server.Timeout + answerMargin
	if x.offered() != nil {
		within += roundsTime
	}
	return x.caller.Approvals.Send(ctx, x.claim, within)
}

// round makes the request once, and records it.
func (x *execution) round(ctx context.Context) (upstream.Result, error) {
	result, err := x.ask(ctx)
	x.verdict = verdictOf(err)
	if unsent, ok := errors.AsType[*upstream.Error](err); ok && !unsent.Sent {
		x.unclaimRound(ctx)
		x.broken = x.sent
		return upstream.Result{}, x.unsent(ctx, unsent)
	}
	x.sent, x.rounds, x.turns = true, x.rounds+1, x.turns+1
	x.outcome, err = x.classify(ctx, &result, err)
	x.commit(ctx, err == nil && result.Kind == upstream.KindComplete)
	return result, err
}

// upstream makes the call. A panic becomes an error, since the call has to be recorded.
func (x *execution) upstream(ctx context.Context) (result upstream.Result, err error) {
	defer panics.Recover(&err)
	return x.caller.Upstream.Call(ctx, x.server, &upstream.Call{
		Organization: x.request.Organization, Tool: x.tool, Arguments: x.arguments, Definition: x.definition.Text,
		Meta: x.request.Meta, Progress: x.request.Progress, Log: x.request.Log,
		Capabilities: x.offered(), Inputs: x.inputs, State: x.state, Ask: x.live(),
	})
}

// unsent returns the error of a call of which nothing has left.
func (x *execution) unsent(ctx context.Context, cause *upstream.Error) error {
	if ended := ended(ctx); ended != nil {
		return ended
	}
	x.caller.Log.WarnContext(ctx, "a call could not be sent", slog.String("server", x.server.ID), slog.String("error", cause.Error()))
	if cause.Unauthorized() {
		return unauthorized(cause)
	}
	refused := errUnavailable.Wrap(cause)
	refused.RetryAfter = max(refused.RetryAfter, cause.RetryAfter)
	return refused
}

// classify returns how a call that was sent has ended, and the error for its caller.
func (x *execution) classify(ctx context.Context, result *upstream.Result, err error) (ledger.Outcome, error) {
	_, answered := errors.AsType[*wire.Error](err)
	switch {
	case err == nil && result.Kind == upstream.KindInputRequired && x.offered() != nil:
		return ledger.OutcomeCompleted, nil
	case err == nil && result.Kind == upstream.KindTask && x.takesTask():
		return ledger.OutcomeCompleted, x.keepTask(result)
	case err == nil && result.Kind != upstream.KindComplete:
		*result = upstream.Result{}
		return ledger.OutcomeCompleted, errUnsupported
	case err == nil, answered:
		return ledger.OutcomeCompleted, err
	}
	*result = upstream.Result{}
	if cause := admission.Termination(ctx); cause != nil {
		return ledger.OutcomeAborted, cause
	}
	if ctx.Err() != nil {
		return ledger.OutcomeCancelled, apierr.From(ctx.Err())
	}
	x.caller.Log.WarnContext(ctx, "a call got no answer", slog.String("server", x.server.ID), slog.String("error", err.Error()))
	return ledger.OutcomeInterrupted, ErrOutcomeUnknown.Wrap(err)
}

// ended returns why a request has ended; nil if it has not.
func ended(ctx context.Context) error {
	if cause := admission.Termination(ctx); cause != nil {
		return cause
	}
	if ctx.Err() != nil {
		return apierr.From(ctx.Err())
	}
	return nil
}
