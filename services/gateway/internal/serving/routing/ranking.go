package routing

import (
	"fmt"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/governance/amount"
	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// RankedCandidate is a candidate with its rank for an operation and a goal, and the reason for it.
type RankedCandidate struct {
	Operation provider.Operation
	Goal      policy.Goal
	provider.Target
	// Rank, from 1, is the order in which candidates are tried for a request that names only the operation and the
	// goal.
	Rank int
	// Score is what the goal compares: cents per million tokens (per image for images), milliseconds, or the policy's
	// rank; 0 where it is not known.
	Score float64
	// Reason for people.
	Reason string
}

// rankingTokens is the size of the input that the ranking assumes; the answer is assumed to be as long.
const rankingTokens = assumedOutput

// Ranking returns the candidates of every operation and goal in a state, in order. It ignores pin and canary.
func Ranking(p *policy.Policy, s State) []RankedCandidate {
	s.Override, s.Last = steering.Override{}, provider.Target{}
	var all []RankedCandidate
	for _, operation := range provider.Operations() {
		for _, goal := range policy.Goals() {
			all = append(all, ranking(p, operation, goal, s)...)
		}
	}
	return all
}

// ranking plans a request that asks for nothing but the goal, and reads the planner's candidates before they are
// released.
func ranking(p *policy.Policy, operation provider.Operation, goal policy.Goal, s State) []RankedCandidate {
	b := planners.Get().(*planner) //nolint:errcheck // The pool holds nothing else.
	defer b.release()
	b.policy, b.state = p, s
	b.request = Request{Operation: operation, Goal: goal, Substitution: true, Needs: Needs{Context: rankingTokens}}
	if operation == provider.OperationImages {
		b.request.Needs = Needs{Images: 1}
	}
	b.goal, b.operation = goal, operation
	asked, _, err := b.open()
	if err != nil {
		return nil // The policy has no candidate for it.
	}
	b.section(asked, false)
	asks := len(b.picked)
	b.section(p.Ladder(operation), false)
	ranked := make([]RankedCandidate, len(b.picked))
	for i := range b.picked {
		o := b.picked[i].Offer
		ranked[i] = RankedCandidate{Operation: operation, Goal: goal, Target: o.Target, Rank: i + 1}
		ranked[i].Score, ranked[i].Reason = b.why(o)
		if i >= asks {
			ranked[i].Reason += "; on the fallback ladder"
		}
	}
	return ranked
}

// why returns what the goal compares of an offer, and in words.
func (b *planner) why(o *policy.Offer) (score float64, reason string) {
	place := "not in the policy's ranks for " + string(b.goal)
	rank := 0.0
	if at, _ := o.Rank(b.goal); at != policy.Unranked {
		rank, place = float64(at+1), "rank "+strconv.Itoa(int(at)+1)+" of the policy for "+string(b.goal)
	}
	if b.policy.Default(b.operation) == o && rank == 0 {
		place = "the policy's default model"
	}
	t := o.Target
	switch b.goal {
	case policy.GoalCost:
		if cents, unit, known := b.cents(o); known {
			return cents, strconv.FormatFloat(cents, 'f', -1, 64) + " cents per " + unit
		}
		return 0, "no price; " + place
	case policy.GoalLatency:
		if b.state.Live != nil {
			if wait, known := b.state.Live.Latency(t); known {
				return float64(wait) / float64(time.Millisecond), fmt.Sprintf("usual wait of %s", wait.Round(time.Millisecond))
			}
		}
		return 0, "too few calls lately; " + place
	case policy.GoalQuality:
	}
	return rank, place
}

// cents returns the cost by which an offer is compared, and its unit; known is false without a price.
func (b *planner) cents(o *policy.Offer) (cents float64, unit string, known bool) {
	pico := b.cost(o)
	if pico == unpriced {
		return 0, "", false
	}
	const picoPerCent = 1e10
	switch b.operation {
	case provider.OperationImages:
		return price.Pico(pico).Cents(), "image", true
	case provider.OperationEmbeddings, provider.OperationModerations, provider.OperationRerank, provider.OperationSpeech,
		provider.OperationTranscriptions:
		return amount.Round(float64(pico) * (1e6 / rankingTokens) / picoPerCent), "million tokens", true
	case provider.OperationChat, provider.OperationVision, provider.OperationCompletions:
	}
	return amount.Round(float64(pico) * (1e6 / (2 * rankingTokens)) / picoPerCent), "million tokens, as many in as out", true
}
