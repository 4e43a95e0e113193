package routing

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"
)

// RankedCandidate is a candidate with its place in the selection, and why it has that place.
type RankedCandidate struct {
	Operation Operation
	Goal      Goal
	Target
	// Rank from 1: the order in which a request is tried that names only the
	// operation and the goal.
	Rank int
	// Score is what the goal compares: cents per million tokens (per image for
	// images), milliseconds, or the policy's rank; 0 where it is not known.
	Score float64
	// Reason for people.
	Reason string
}

// rankingTokens is the input of the request that the ranking is made for; its answer
// is as long.
const rankingTokens = assumedOutput

// Ranking returns the candidates of every operation and goal in a state, in order. Pin and
// canary are left out.
func (p *Policy) Ranking(s State) []RankedCandidate {
	s.Override, s.Last = Override{}, Target{}
	var all []RankedCandidate
	for _, operation := range operations {
		for _, goal := range goals {
			all = append(all, p.ranking(operation, goal, s)...)
		}
	}
	return all
}

// ranking plans a request that asks for nothing but the goal, and reads the plan before
// it is given away.
func (p *Policy) ranking(operation Operation, goal Goal, s State) []RankedCandidate {
	b := planners.Get().(*planner) //nolint:errcheck // The pool holds nothing else.
	defer b.release()
	b.policy, b.state = p, s
	b.request = Request{Operation: operation, Goal: goal, Substitution: true, Needs: Needs{Context: rankingTokens}}
	if operation == OperationImages {
		b.request.Needs = Needs{Images: 1}
	}
	b.goal = slices.Index(goals, goal)
	b.operation = operation.index()
	asked, _, err := b.open()
	if err != nil {
		return nil // The policy has no candidate for it.
	}
	b.section(asked, false)
	asks := len(b.picked)
	b.section(p.ladders[b.operation], false)
	ranked := make([]RankedCandidate, len(b.picked))
	for i := range b.picked {
		o := b.picked[i].offer
		ranked[i] = RankedCandidate{Operation: operation, Goal: goal, Target: o.candidate.Target, Rank: i + 1}
		ranked[i].Score, ranked[i].Reason = b.why(o)
		if i >= asks {
			ranked[i].Reason += "; on the fallback ladder"
		}
	}
	return ranked
}

// why is what the goal compares of an offer.
func (b *planner) why(o *offer) (score float64, reason string) {
	place := "not in the policy's ranks for " + string(goals[b.goal])
	rank := 0.0
	if at := o.places[b.goal]; at != unranked {
		rank, place = float64(at+1), "rank "+strconv.Itoa(int(at)+1)+" of the policy for "+string(goals[b.goal])
	}
	if b.policy.defaults[b.operation] == o && rank == 0 {
		place = "the policy's default model"
	}
	t := o.candidate.Target
	switch goals[b.goal] {
	case GoalCost:
		if cents, unit, known := b.cents(o); known {
			return cents, strconv.FormatFloat(cents, 'f', -1, 64) + " cents per " + unit
		}
		return 0, "no price; " + place
	case GoalLatency:
		if b.state.Live != nil {
			if wait, known := b.state.Live.Latency(t); known {
				return float64(wait) / float64(time.Millisecond), fmt.Sprintf("usual wait of %s", wait.Round(time.Millisecond))
			}
		}
		return 0, "too few calls lately; " + place
	case GoalQuality:
	}
	return rank, place
}

// cents is what the cost is compared by.
func (b *planner) cents(o *offer) (cents float64, unit string, known bool) {
	pico := b.cost(o)
	if pico == unpriced {
		return 0, "", false
	}
	const picoPerCent = 1e10
	switch operations[b.operation] {
	case OperationImages:
		return float64(pico) / picoPerCent, "image", true
	case OperationEmbeddings:
		return float64(pico) * (1e6 / rankingTokens) / picoPerCent, "million tokens", true
	case OperationChat, OperationVision:
	}
	return float64(pico) * (1e6 / (2 * rankingTokens)) / picoPerCent, "million tokens, as many in as out", true
}

// DefaultGoal is that of requests that name none.
func (p *Policy) DefaultGoal() Goal { return goals[p.goal] }

// Ladder is who is tried in turn for an operation, when what was asked for fails.
func (p *Policy) Ladder(operation Operation) []Target {
	ladder := make([]Target, 0, len(p.ladders[operation.index()]))
	for _, o := range p.ladders[operation.index()] {
		ladder = append(ladder, o.candidate.Target)
	}
	return ladder
}

// Default is the model for an operation of requests that name none; false where
// there is none.
func (p *Policy) Default(operation Operation) (Target, bool) {
	o := p.defaults[operation.index()]
	if o == nil {
		return Target{}, false
	}
	return o.candidate.Target, true
}

// ProviderDefault is the model for an operation of requests that name only the
// provider; false where there is none.
func (p *Policy) ProviderDefault(provider string, operation Operation) (Target, bool) {
	e := p.byName[provider]
	if e == nil || e.defaults[operation.index()] == nil {
		return Target{}, false
	}
	return e.defaults[operation.index()].candidate.Target, true
}

// Serves lists the operations that a provider's model does; none where the policy
// has no such model. An empty model is any of the provider's.
func (p *Policy) Serves(t Target) []Operation {
	e := p.byName[t.Provider]
	if e == nil {
		return nil
	}
	var set operationSet
	if t.Model == "" {
		if set = dialects[e.Dialect]; len(e.Models) > 0 {
			set = 0
			for _, o := range e.offers {
				set |= o.operations
			}
		}
	} else if o := e.find(t.Model); o != nil {
		set = o.operations
	}
	var served []Operation
	for i, operation := range operations {
		if set.has(i) {
			served = append(served, operation)
		}
	}
	return served
}

// Operations are all that there are.
func Operations() []Operation { return slices.Clone(operations) }

// Sight says which providers may see data of a classification.
type Sight struct {
	// Organizations is the pattern that it holds for.
	Organizations, Classification string
	Providers                     []string
}

// Sights are the policy's rules of data, in the order in which they hold.
func (p *Policy) Sights() []Sight {
	var all []Sight
	for _, t := range p.tenants {
		for _, pattern := range t.Organizations {
			for _, name := range slices.Sorted(maps.Keys(t.allowed)) {
				sight := Sight{Organizations: pattern, Classification: name}
				for i, may := range t.allowed[name] {
					if may {
						sight.Providers = append(sight.Providers, p.Providers[i].Name)
					}
				}
				all = append(all, sight)
			}
		}
	}
	return all
}

// Description is what the policy knows of a model.
type Description struct {
	Operations []Operation
	// Features by their names; those that are not known are taken for given.
	Features []string
	Limits   Limits
	// MostDimensions of its vectors; 0 is unknown.
	MostDimensions int
}

// Describe gives what is known of a model; false where the policy has none such.
func (p *Policy) Describe(t Target) (Description, bool) {
	e := p.byName[t.Provider]
	if e == nil {
		return Description{}, false
	}
	o := e.find(t.Model)
	if o == nil {
		return Description{}, false
	}
	d := Description{Operations: p.Serves(t), Limits: o.capabilities.Limits, MostDimensions: o.capabilities.Dimensions.Max}
	if lengths := o.capabilities.Dimensions.AnyOf; len(lengths) > 0 {
		d.MostDimensions = slices.Max(lengths)
	}
	for i, name := range featureNames {
		if o.candidate.Lacks&(1<<i) == 0 {
			d.Features = append(d.Features, name)
		}
	}
	return d, true
}

// ByUpstream returns our name of a model that a vendor calls by its own; a name that
// is already ours, or is no known model's, stays as it is.
func (p *Policy) ByUpstream(t Target) string {
	e := p.byName[t.Provider]
	if e == nil || t.Model == "" || e.offers[t.Model] != nil {
		return t.Model
	}
	for _, model := range e.Models {
		if model.Upstream == t.Model {
			return model.Name
		}
	}
	return t.Model
}
