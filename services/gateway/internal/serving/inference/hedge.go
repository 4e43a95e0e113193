package inference

import (
	"slices"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/hedge"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// hedgeBudgets are the budgets of hedges by goal. They are this replica's own: each counts only what it has spent
// itself, so that together the replicas keep to the percentage.
type hedgeBudgets struct{ cost, latency, quality hedge.Budget }

func (b *hedgeBudgets) of(goal policy.Goal) *hedge.Budget {
	switch goal {
	case policy.GoalCost:
		return &b.cost
	case policy.GoalLatency:
		return &b.latency
	case policy.GoalQuality:
	}
	return &b.quality
}

// hedgeOutcome is what became of a hedge, or why there was none.
type hedgeOutcome string

const (
	hedgeWon           hedgeOutcome = "won"
	hedgeLost          hedgeOutcome = "lost"
	hedgeFailed        hedgeOutcome = "failed"
	hedgeNoBudget      hedgeOutcome = "no_budget"
	hedgeNoRoom        hedgeOutcome = "no_room"
	hedgeNoReservation hedgeOutcome = "no_reservation"
)

// plannedHedge is the second call that may join the first one of a request, which has not answered after a wait.
type plannedHedge struct {
	candidate

	rule  policy.Hedge
	after time.Duration
}

// hedgeRule returns when the request is hedged.
func (x *execution) hedgeRule() policy.Hedge {
	if x.fleet.Hedge == nil {
		return policy.Hedge{}
	}
	return x.fleet.Hedge(x.request.Route.Goal)
}

// isHedgeable reports whether a second call of the request could do no harm: it makes a chat's answer and nothing else.
// Answers that are stored, calls of a vendor's own tools and tool calls with an approval have effects that a second call
// would repeat.
func (r *Request) isHedgeable() bool {
	switch r.Route.Operation {
	case "", provider.OperationChat, provider.OperationVision:
	default:
		return false
	}
	return r.Relay == nil && !r.Stored && !r.Probe && r.ApprovalRef == "" &&
		!r.Bounds.OpenInput && !r.Bounds.Surcharged && r.Bounds.Offered == "" &&
		!slices.ContainsFunc(r.Hints, func(h provider.HintField) bool { return h.Name == "store" })
}

// mayHedge returns the second call that may join a first one to c; nil for none. A request has one at most. While a
// canary is measured there is none: it would hide how slow the canary is.
func (r *round) mayHedge(c *candidate, rest []candidate) *plannedHedge {
	rule := r.hedgeRule()
	if !rule.On() || r.race != nil || r.plan.CanaryRevision != 0 || r.left() == 0 || !r.request.isHedgeable() {
		return nil
	}
	after := rule.After
	if after == 0 {
		slow := r.engine.Health.Slow(c.Target, r.streams, rule.BudgetPercent/100)
		if slow == 0 {
			return nil
		}
		after = max(slow, policy.LeastHedgeWait)
	}
	second := r.secondTo(c, rest)
	if second == nil {
		return nil
	}
	return &plannedHedge{*second, rule, after}
}

// secondTo returns the candidate of a hedge: the next other host of the very model, or else the next credential of the
// same pool; nil for none. The fleet and an organization's own credentials don't mix, since each pays for its
// own calls. An operator's pin holds for hedges too. A hedge is not worth fetching images for.
func (r *round) secondTo(c *candidate, rest []candidate) *candidate {
	for i := range rest {
		other := &rest[i]
		if !r.plan.Pinned && other.Provider != c.Provider && other.IsSameModel(&c.Candidate) &&
			other.credential.Source == c.credential.Source && !r.inlines(other).any() {
			return other
		}
	}
	if len(c.others) == 0 || c.others[0].Source != c.credential.Source || r.inlines(c).any() {
		return nil
	}
	other := c.another()
	return &other
}

// hedgeCost estimates what a call costs: the input, counted by bytes, and the usual output.
func (x *execution) hedgeCost(c *candidate, budget *hedge.Budget) price.Pico {
	usage := estimateInput(x.request)
	usage.Output = budget.UsualOutput()
	if limit := int64(x.request.Chat.MaxTokens); limit > 0 {
		usage.Output = min(usage.Output, limit)
	}
	cost := x.fleet.Prices.Cost(c.Provider, c.Model, time.Now(), usage)
	return hedge.Worth(cost.Amount, usage.Prompt()+usage.Completion())
}

// earnHedges adds the goal's percentage of a completion to the budget of hedges.
func (x *execution) earnHedges(b *bill) {
	if rule := x.hedgeRule(); rule.On() && !x.hit {
		x.engine.hedges.of(rule.Goal).Earn(b.worth(), b.report.Completion, rule.BudgetPercent, time.Now())
	}
}

// worth returns what the bill counts in a budget of hedges.
func (b *bill) worth() price.Pico {
	return hedge.Worth(b.report.Cost, b.report.Prompt+b.report.Completion)
}
