package inference

import (
	"context"
	"errors"
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/governance/keyterm"
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
	// Admit admits a request, or refuses it with an *apierr.Error.
	Admit(ctx context.Context, organization, run string, key keyterm.Terms) (admission.Grant, error)
}

// ReasonModelNotAllowed refuses a model that the run or the API key may not use.
const ReasonModelNotAllowed apierr.Reason = "model_not_allowed"

// Refusals of models.
var (
	errModelNotAllowed    = modelNotAllowed("model: the run's authority does not have it")
	errKeyModelNotAllowed = modelNotAllowed("model: the API key may not use it")
)

func modelNotAllowed(text string) *apierr.Error {
	return &apierr.Error{Kind: apierr.KindForbidden, Reason: ReasonModelNotAllowed, Class: apierr.ClassPolicy, Text: text}
}

// admitted is a request that may run, with what it runs on. It does not change while the request lasts.
type admitted struct {
	request *Request
	// fleet is the Fleet in force when the request began.
	fleet   *Fleet
	started time.Time
	// grant is the request's admission; nil where none is required.
	grant admission.Grant
	// hold charges the memory for the request's answers and images, until it has been answered.
	hold *memory.Hold
	// record is passed to the recorder at the end; nil for none.
	record *record
}

// admit asks for the request's admission and returns its context; a nil controller admits every request.
func (a *admitted) admit(ctx context.Context, controller Admission) (context.Context, error) {
	if controller == nil {
		return ctx, nil
	}
	var err error
	if a.grant, err = controller.Admit(ctx, a.request.Organization, a.request.Run, a.request.KeyTerms); err != nil {
		return ctx, err
	}
	if authority := a.grant.Terms().Run; authority != nil && a.request.ApprovalRef == "" {
		a.request.ApprovalRef = authority.ApprovalRef
	}
	return a.grant.Context(), nil
}

// deadline returns when the total clock runs out.
func (a *admitted) deadline(c Clocks) time.Time { return a.started.Add(c.Total) }

// reserves reports whether the request's worst case is reserved.
func (a *admitted) reserves() bool { return a.grant != nil && a.grant.Terms().Reserves }

// boundAt returns the most that the request can use at a candidate.
func (a *admitted) boundAt(c *candidate) bound { return mostUsage(a.request, c, a.reserves()) }

// end ends the request, after it was recorded or has failed. Its outcome is recorded in metrics, spans and the
// recorder after the response has been written.
func (x *execution) end(ctx context.Context) {
	x.recordCanarySample()
	x.endRace(ctx)
	x.settleQuotas()
	if x.grant != nil {
		x.grant.End(x.recorded)
	}
	x.ended = time.Now()
	x.engine.After(ctx, func() {
		x.recordOutcome(ctx)
		x.hold.Close()
		x.race.close()
	})
}

// recordCanarySample counts the request for the canary that is set. A request that called no provider, or that failed
// through its own fault, is in neither arm.
func (x *execution) recordCanarySample() {
	if x.plan.CanaryRevision == 0 || x.engine.Canary == nil || x.attempts == 0 || x.request.Probe || x.served.provider == nil && !x.unserved {
		return
	}
	x.engine.Canary.Record(steering.CanarySample{
		Revision: x.plan.CanaryRevision, Canary: x.plan.Canary, Failed: x.unserved,
		FailedOver: !x.unserved && x.served.Target != x.candidates[0].Target, Took: time.Since(x.started),
	})
}

// reserve keeps the candidates that the request's terms allow, and reserves the worst case of the most expensive.
func (x *execution) reserve(ctx context.Context) error {
	if err := x.allow(&x.admitted); err != nil || !x.reserves() {
		return err
	}
	var err error
	if x.reservation, err = x.worst(&x.admitted, x.grant.Terms().Priced); err != nil {
		return err
	}
	err = x.grant.Reserve(ctx, x.id, x.reservation)
	if short, ok := errors.AsType[*budget.ShortError](err); ok {
		return x.explain(short)
	}
	return err
}

// allow keeps the candidates whose models both the run and the API key of a request may use.
func (s *selection) allow(a *admitted) error {
	if a.grant != nil {
		if authority := a.grant.Terms().Run; authority != nil {
			if err := s.keepModels(authority.Limits, errModelNotAllowed); err != nil {
				return err
			}
		}
	}
	return s.keepModels(run.Limits{Models: a.request.KeyTerms.Models}, errKeyModelNotAllowed)
}

// keepModels keeps the candidates whose models limits allow.
func (s *selection) keepModels(limits run.Limits, refusal error) error {
	if len(limits.Models) == 0 {
		return nil
	}
	return s.keep(func(c candidate) bool { return limits.Allows(c.Model, c.String(), c.Upstream) }, refusal)
}

// keep removes the candidates that may not serve. The target that was asked for must be among the rest: no failure has
// happened that another model could stand in for.
func (s *selection) keep(may func(c candidate) bool, refusal error) error {
	asked := func(c candidate) bool { return !c.Substitute }
	before := slices.ContainsFunc(s.candidates, asked)
	s.candidates = slices.DeleteFunc(s.candidates, func(c candidate) bool { return !may(c) })
	if len(s.candidates) == 0 || before && !slices.ContainsFunc(s.candidates, asked) {
		return refusal
	}
	return nil
}

// worst returns the most that the request can cost at any of its candidates. Candidates without a price are removed
// where there must be one.
func (s *selection) worst(a *admitted, priced bool) (price.Pico, error) {
	var worst price.Pico
	unpriced := a.fleet.ServesUnpriced || a.request.Probe || !priced
	if field := a.request.Bounds.Unpriced; field != "" && !unpriced {
		return 0, unpricedField(field)
	}
	if field := a.request.Bounds.Offered; field != "" && !unpriced {
		if a.request.Route.Needs.Dialect != "" {
			return 0, unpricedField(field)
		}
		s.withhold(a.request)
	}
	err := s.keep(func(c candidate) bool {
		most := mostUsage(a.request, &c, true)
		cost, known := dearest(a.fleet.Prices.Cost, c, most.Usage)
		worst = max(worst, cost)
		return known || unpriced
	}, budget.ErrUnpriced)
	return worst, err
}

// withhold serves a request without the tools of vendors that it offers to the model: every candidate gets the request
// translated, which leaves them out.
func (s *selection) withhold(r *Request) {
	r.Chat.Native, r.Bounds.Offered = nil, ""
	for i := range s.candidates {
		s.candidates[i].Native = false
	}
}

// unpricedField returns the error for a field whose surcharge has no price.
func unpricedField(field string) error {
	return modelNotAllowed(field + ": its surcharge has no price, and the run, the API key or the organization has a ceiling")
}

// priceOf is one of the methods of Prices.
type priceOf func(provider, model string, at time.Time, u provider.Usage) price.Cost

// dearest returns the cost of a usage as if it were all in the most expensive buckets: the vendor decides whether input
// is written to a cache, or output is thinking or an image.
func dearest(priceOf priceOf, c candidate, most provider.Usage) (cost price.Pico, known bool) {
	now := time.Now()
	for _, input := range provider.SidePrompt.Buckets() {
		for _, output := range provider.SideCompletion.Buckets() {
			usage := most
			for _, side := range []provider.Side{provider.SidePrompt, provider.SideCompletion} {
				for _, b := range side.Buckets() {
					*b.Of(&usage) = 0
				}
			}
			*input.Of(&usage), *output.Of(&usage) = most.Prompt(), most.Completion()
			of := priceOf(c.Provider, c.Model, now, usage)
			cost, known = max(cost, of.Amount), known || of.Known
		}
	}
	return cost, known
}

// outcomeOf returns the outcome of a request whose context has ended.
func outcomeOf(ctx context.Context) ledger.Outcome {
	if admission.Termination(ctx) != nil {
		return ledger.OutcomeAborted
	}
	return ledger.OutcomeCancelled
}
