package inference

import (
	"context"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Admission decides which requests may run now; see admission.Controller.
type Admission interface {
	// Admit lets a request in, or refuses it with an *apierr.Error.
	Admit(ctx context.Context, organization, run string) (admission.Grant, error)
}

// ReasonModelNotAllowed is of a model that the run may not use.
const ReasonModelNotAllowed apierr.Reason = "model_not_allowed"

var errModelNotAllowed = &apierr.Error{
	Kind: apierr.KindForbidden, Reason: ReasonModelNotAllowed, Class: apierr.ClassPolicy, Text: "model: the run's authority does not have it",
}

// enter asks for the request's admission and gives its context.
func (x *execution) enter(ctx context.Context) (context.Context, error) {
	if x.Admission == nil {
		return ctx, nil
	}
	var err error
	if x.grant, err = x.Admission.Admit(ctx, x.request.Organization, x.request.Run); err != nil {
		return ctx, err
	}
	if authority := x.grant.Terms().Run; authority != nil && x.request.ApprovalRef == "" {
		x.request.ApprovalRef = authority.ApprovalRef
	}
	return x.grant.Context(), nil
}

// leave ends the request, once it is recorded or has failed. Metrics, spans and the
// recorder get its outcome after the answer has gone.
func (x *execution) leave(ctx context.Context) {
	x.recordCanarySample()
	if x.grant != nil {
		x.grant.Leave(x.recorded)
	}
	x.ended = time.Now()
	x.After(ctx, func() {
		x.tell(ctx)
		x.hold.Close()
	})
}

// recordCanarySample counts the request for the canary that is set. A request for which
// no provider was called, or that failed by its own fault, is in neither arm.
func (x *execution) recordCanarySample() {
	if x.plan.CanaryRevision == 0 || x.Canary == nil || x.attempts == 0 || x.request.Probe || x.served.provider == nil && !x.unserved {
		return
	}
	x.Canary.Record(steering.CanarySample{
		Revision: x.plan.CanaryRevision, Canary: x.plan.Canary, Failed: x.unserved,
		FailedOver: !x.unserved && x.served.Target != x.candidates[0].Target, Took: time.Since(x.started),
	})
}

// reserve keeps the candidates that the request's terms allow, and sets aside the
// worst case of the dearest.
func (x *execution) reserve(ctx context.Context) error {
	if x.grant == nil {
		return nil
	}
	terms := x.grant.Terms()
	if err := x.allow(terms.Run); err != nil {
		return err
	}
	if !terms.Reserves {
		return nil
	}
	var err error
	if x.worstCost, err = x.worst(terms.Priced); err != nil {
		return err
	}
	return x.grant.Reserve(ctx, x.id, x.worstCost)
}

// reserves reports whether the request's worst case is set aside.
func (x *execution) reserves() bool { return x.grant != nil && x.grant.Terms().Reserves }

// boundAt is the most that the request can use at a candidate.
func (x *execution) boundAt(c *candidate) bound { return mostUsage(x.request, c, x.reserves()) }

// allow keeps the candidates whose models the run may use.
func (x *execution) allow(authority *run.Run) error {
	if authority == nil || len(authority.Limits.Models) == 0 {
		return nil
	}
	return x.keep(func(c candidate) bool { return authority.Limits.Allows(c.Model, c.String(), c.Upstream) }, errModelNotAllowed)
}

// keep leaves out the candidates that may not serve. What was asked for must be
// among those that are left: nothing has failed that another model could stand in for.
func (x *execution) keep(may func(c candidate) bool, refusal error) error {
	asked := func(c candidate) bool { return !c.Substitute }
	before := slices.ContainsFunc(x.candidates, asked)
	x.candidates = slices.DeleteFunc(x.candidates, func(c candidate) bool { return !may(c) })
	if len(x.candidates) == 0 || before && !slices.ContainsFunc(x.candidates, asked) {
		return refusal
	}
	return nil
}

// worst is the most that the request can cost at any of its candidates. Those
// without a price are left out where there must be one.
func (x *execution) worst(priced bool) (price.Pico, error) {
	var worst price.Pico
	unpriced := x.fleet.ServesUnpriced || x.request.Probe || !priced
	if field := x.request.Bounds.Unpriced; field != "" && !unpriced {
		return 0, unpricedField(field)
	}
	err := x.keep(func(c candidate) bool {
		most := mostUsage(x.request, &c, true)
		cost, known := x.dearest(c, most.Usage)
		worst = max(worst, cost)
		return known || unpriced
	}, budget.ErrUnpriced)
	return worst, err
}

// unpricedField refuses a field whose surcharge has no price.
func unpricedField(field string) error {
	return &apierr.Error{
		Kind: apierr.KindForbidden, Reason: ReasonModelNotAllowed, Class: apierr.ClassPolicy,
		Text: field + ": its surcharge has no price, and the run or the organization has a ceiling",
	}
}

// dearest prices a usage as if it were all in the dearest buckets: whether input
// is written to a cache, or output is thinking or an image, is the vendor's to say.
func (x *execution) dearest(c candidate, most provider.Usage) (cost price.Pico, known bool) {
	now := time.Now()
	tokens, made := most.Input, most.Output
	for _, input := range []provider.Usage{
		{Input: tokens}, {CacheRead: tokens}, {CacheWrite: tokens}, {CacheWriteLong: tokens}, {ImageInput: tokens}, {AudioInput: tokens},
	} {
		for _, output := range []provider.Usage{{Output: made}, {Reasoning: made}, {ImageOutput: made}, {AudioOutput: made}} {
			usage := provider.Usage{Images: most.Images}
			usage.Add(input)
			usage.Add(output)
			of := x.fleet.Prices.Cost(c.Provider, c.Model, now, usage)
			cost, known = max(cost, of.Amount), known || of.Known
		}
	}
	return cost, known
}

// left is how a request whose context has ended is recorded.
func left(ctx context.Context) ledger.Outcome {
	if terminated(ctx) != nil {
		return ledger.OutcomeAborted
	}
	return ledger.OutcomeCancelled
}

// terminated is why a request was ended from outside; nil when it wasn't.
func terminated(ctx context.Context) *apierr.Error {
	if cause, ok := context.Cause(ctx).(*apierr.Error); ok { //nolint:errorlint // The cause is given as it is.
		return cause
	}
	return nil
}
