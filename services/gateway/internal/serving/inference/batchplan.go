package inference

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"slices"

	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// BatchPlan is where a batch job may run, and what it can cost.
type BatchPlan struct {
	// Policy is the version of the policy that planned it.
	Policy string
	// Targets are the hosts that may run it, best first: all of one model.
	Targets []BatchTarget
	// Requests are the bounds of each request, in order.
	Requests []BatchBound
	// Worst is the most that the job can cost at any of its targets. Reserves reports whether it must be reserved.
	Worst    price.Pico
	Reserves bool

	// costs holds what the job can cost at each target, if it is reserved. limitField names the field that limits each
	// request's output in the caller's form; empty if a request has none.
	costs      []batchCost
	limitField string
}

// BatchTarget is a host of a job, with the vendor's name of the model and whose credential is used.
type BatchTarget struct {
	provider.Target

	Upstream, Source string
}

// BatchBound is the estimate of a request's input, and the most that it can use, in tokens.
type BatchBound struct{ Input, MostInput, MostOutput int64 }

// BatchLimit bounds the requests of a job.
type BatchLimit struct {
	// API is the path that each request is for.
	API string
	// Most is the largest number of requests.
	Most int
	// Body is the name of a request's body in the caller's form, for errors.
	Body string
}

// PlanBatch plans a batch job. Each request is checked and planned as a request of its own would be; errors of the sequence
// are returned as they are. All requests must be of one model.
func (e *Engine) PlanBatch(ctx context.Context, limit BatchLimit, requests iter.Seq2[*Request, error]) (*BatchPlan, error) {
	b := &batchPlanner{engine: e, limit: limit, costs: make(map[provider.Target]batchCost)}
	defer b.end()
	for r, err := range requests {
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			err = b.add(ctx, r)
		}
		if err != nil {
			return nil, err
		}
	}
	if len(b.plan.Requests) == 0 {
		return nil, apierr.New(apierr.KindInvalid, apierr.ReasonInvalidRequest, "the batch holds no request")
	}
	return b.result()
}

// batchPlanner plans one job, request by request.
type batchPlanner struct {
	engine *Engine
	limit  BatchLimit
	// admitted is the first request's: it stands for the job.
	admitted

	plan BatchPlan
	// candidates are those that may run all requests so far, and costs holds what these cost at each.
	candidates []candidate
	costs      map[provider.Target]batchCost
}

func (b *batchPlanner) end() {
	if b.grant != nil {
		b.grant.End(false)
	}
}

// add takes the next request.
func (b *batchPlanner) add(ctx context.Context, r *Request) error {
	first := b.request == nil
	if first {
		b.admitted = admitted{request: r, fleet: b.engine.Fleet()}
		if _, err := b.admit(ctx, b.engine.Admission); err != nil {
			return err
		}
		b.plan.Policy = b.fleet.Version
		b.plan.limitField = b.limit.Body + "." + cmp.Or(r.Bounds.LimitField, limitField)
	}
	if !r.limitsOutput() {
		b.plan.limitField = ""
	}
	switch {
	case len(b.plan.Requests) == b.limit.Most:
		return apierr.New(apierr.KindTooLarge, apierr.ReasonTooLarge, fmt.Sprintf("the batch holds more than %d requests", b.limit.Most))
	case r.Route.Model != b.request.Route.Model:
		return apierr.Invalid(b.limit.Body+".model", "must be the same in all requests of a batch")
	}
	one := admitted{request: r, fleet: b.fleet, grant: b.grant}
	candidates, err := b.runners(ctx, &one)
	if err != nil {
		return err
	}
	if first {
		b.candidates = candidates
	} else if b.keepCommon(candidates); len(b.candidates) == 0 {
		return batchIncapable()
	}
	return b.bound(&one)
}

// runners returns the candidates of a request that run batch jobs of its API: hosts of one model.
func (b *batchPlanner) runners(ctx context.Context, a *admitted) ([]candidate, error) {
	if err := b.checkTools(a.request); err != nil {
		return nil, err
	}
	if err := b.engine.checkMedia(ctx, a.request); err != nil {
		return nil, inside(b.limit.Body, err)
	}
	describe(a.request)
	plan, err := b.fleet.Planner.Plan(a.request.Route)
	if err != nil {
		return nil, err
	}
	plan.Candidates = slices.DeleteFunc(plan.Candidates, func(c routing.Candidate) bool {
		runner, ok := b.fleet.Providers[c.Provider].(provider.BatchRunner)
		return !ok || c.Substitute || !runner.RunsBatches(b.limit.API)
	})
	if len(plan.Candidates) == 0 {
		return nil, batchIncapable()
	}
	model := plan.Candidates[0].Model // Where none was asked for, the policy's best decides.
	plan.Candidates = slices.DeleteFunc(plan.Candidates, func(c routing.Candidate) bool { return c.Model != model })
	// All hosts are looked at, so that those of all requests have one in common; see result.
	every, request := *a, *a.request
	request.Route.Substitution, every.request = true, &request
	s := selection{plan: plan}
	if err := b.engine.resolve(ctx, &s, &every); err != nil {
		return nil, err
	}
	if err := s.allow(a); err != nil {
		return nil, err
	}
	return s.candidates, nil
}

// checkTools refuses a request whose tools need an approval: no person could decide on the calls of a batch.
func (b *batchPlanner) checkTools(r *Request) error {
	for i := range r.Chat.Tools {
		if needs := b.fleet.NeedsApproval; needs != nil && needs(r.Chat.Tools[i].Name) {
			return apierr.New(apierr.KindForbidden, ReasonApprovalRequired, fmt.Sprintf("%s.tools[%d]: calls of this tool need an approval, which a batch can't wait for", b.limit.Body, i))
		}
	}
	return nil
}

func batchIncapable() error {
	return apierr.New(apierr.KindInvalid, routing.ReasonCapabilityUnsupported, "no provider of the model runs such requests in batches")
}

// keepCommon keeps the candidates that are among others, too.
func (b *batchPlanner) keepCommon(others []candidate) {
	b.candidates = slices.DeleteFunc(b.candidates, func(c candidate) bool {
		return !slices.ContainsFunc(others, func(o candidate) bool { return o.Target == c.Target })
	})
}

// bound adds what a request can use.
func (b *batchPlanner) bound(a *admitted) error {
	var most BatchBound
	most.Input = provider.Estimate(promptBytes(a.request), 0).Input
	if a.request.Relay != nil {
		most.Input = a.request.Relay.Estimate.Prompt()
	}
	terms := a.reserves() && b.grant.Terms().Priced && !b.fleet.ServesUnpriced
	if field := a.request.Bounds.Unpriced; field != "" && terms {
		return unpricedField(field)
	}
	if field := a.request.Bounds.Offered; field != "" && terms {
		return unpricedField(field)
	}
	var refused error
	b.candidates = slices.DeleteFunc(b.candidates, func(c candidate) bool {
		usage := mostUsage(a.request, &c, true).Usage
		cost, known := dearest(b.fleet.Prices.CostInBatch, c, usage)
		if terms && !known {
			refused = budget.ErrUnpriced
			return true
		}
		own := batchCost{worst: cost}
		if a.reserves() {
			own.least = costWithin(b.fleet.Prices.CostInBatch, a.request, &c, 1)
			own.more = costWithin(b.fleet.Prices.CostInBatch, a.request, &c, 1+fitStep)
		}
		b.costs[c.Target] = b.costs[c.Target].plus(own)
		most.MostInput, most.MostOutput = max(most.MostInput, usage.Prompt()), max(most.MostOutput, usage.Completion())
		return false
	})
	if len(b.candidates) == 0 {
		return refused
	}
	b.plan.Requests = append(b.plan.Requests, most)
	return nil
}

// result returns the plan of all requests. Where no other host may stand in for the best, it is the only one.
func (b *batchPlanner) result() (*BatchPlan, error) {
	if !b.request.Route.Substitution {
		b.candidates = b.candidates[:1]
	}
	for _, c := range b.candidates {
		b.plan.Targets = append(b.plan.Targets, BatchTarget{c.Target, c.Upstream, c.credential.Source})
		b.plan.costs = append(b.plan.costs, b.costs[c.Target])
		b.plan.Worst = max(b.plan.Worst, b.costs[c.Target].worst)
	}
	b.plan.Reserves = b.reserves()
	return &b.plan, nil
}

// Spent counts what a batch job has cost in the metrics of all completions.
func (e *Engine) Spent(r *ledger.Report) { e.spent(r) }
