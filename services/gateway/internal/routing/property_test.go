package routing

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/price"
	"switchyard.dev/services/gateway/internal/provider"
)

// costs are prices that a test makes up: so much a token of input, none for some.
type costs map[Target]int64

func (c costs) Cost(of, model string, _ time.Time, u provider.Usage) price.Cost {
	rate, ok := c[Target{of, model}]
	return price.Cost{Amount: price.Pico(rate * u.Input), Known: ok}
}

// drawPolicy makes a policy of a few providers and models, with ranks, ladders
// and rules by chance.
func drawPolicy(t *rapid.T) *Policy {
	model := rapid.StringMatching(`[mn][1-4]`)
	doc := document{Resilience: defaults}
	var all []string
	for i := range rapid.IntRange(1, 5).Draw(t, "providers") {
		p := Provider{
			Name: fmt.Sprint("p", i), Dialect: rapid.SampledFrom([]string{"openai", "anthropic", "gemini", "cohere", "sandbox"}).Draw(t, "dialect"),
			Regions: rapid.SliceOfN(rapid.SampledFrom([]string{"eu", "us"}), 0, 2).Draw(t, "regions"),
			Tags:    rapid.SliceOfN(rapid.SampledFrom([]string{"zdr", "local"}), 0, 2).Draw(t, "tags"),
		}
		for _, name := range rapid.SliceOfNDistinct(model, 0, 4, rapid.ID).Draw(t, "models") {
			m := Model{Name: name}
			if rapid.Bool().Draw(t, "limited") {
				features := Feature(rapid.Uint8Range(0, 31).Draw(t, "features"))
				m.Features = &features
				m.Operations = rapid.SliceOfNDistinct(rapid.SampledFrom(operations), 1, 4, rapid.ID).Draw(t, "operations")
				m.Limits = Limits{Context: rapid.IntRange(0, 1000).Draw(t, "context"), Output: rapid.IntRange(0, 1000).Draw(t, "output")}
			}
			p.Models = append(p.Models, m)
			all = append(all, p.Name+"/"+name)
		}
		doc.Providers = append(doc.Providers, p)
	}
	doc.Providers = append(doc.Providers, Provider{Name: "base", Dialect: "sandbox", Models: []Model{{Name: "base"}}})
	all = append(all, "base/base")
	doc.DefaultModel = perOperation[string]{all: true, of: map[Operation]string{OperationChat: "base/base", OperationImages: "base/base"}}
	doc.Ladder = perOperation[[]string]{all: true, of: map[Operation][]string{}}
	for _, operation := range operations {
		doc.Ladder.of[operation] = rapid.SliceOfN(rapid.SampledFrom(all), 0, 4).Draw(t, "ladder")
	}
	doc.Goals = map[Goal][]tier{}
	for _, goal := range goals {
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 4, rapid.ID).Draw(t, "ranks") {
			doc.Goals[goal] = append(doc.Goals[goal], tier{name})
		}
	}
	if rapid.Bool().Draw(t, "rules") {
		doc.DataClassification = []Tenant{{Organizations: []string{"*"}, Classifications: map[string]Rule{
			"named": {Providers: []string{"base"}}, "eu": {Regions: []string{"eu"}}, "zdr": {Tags: []string{"zdr"}}, "no": {Deny: true}, "all": {},
		}}}
	}
	p, err := build(doc)
	if err != nil {
		t.Fatalf("%v: %+v", err, doc)
	}
	return p
}

func drawRequest(t *rapid.T) Request {
	return Request{
		Operation:      rapid.SampledFrom(operations).Draw(t, "operation"),
		Organization:   "acme",
		Classification: rapid.SampledFrom([]string{"", "named", "eu", "zdr", "no", "all", "unknown"}).Draw(t, "classification"),
		Model:          rapid.SampledFrom([]string{"", "default", "m1", "m2", "n1", "p0/m1", "p1/n2", "base"}).Draw(t, "model"),
		Provider:       rapid.SampledFrom([]string{"", "", "", "p0", "base"}).Draw(t, "provider"),
		Goal:           rapid.SampledFrom([]Goal{"", GoalCost, GoalLatency, GoalQuality}).Draw(t, "goal"),
		Substitution:   rapid.Bool().Draw(t, "substitution"),
		Affinity:       rapid.Uint64Range(0, 3).Draw(t, "affinity"),
		Needs: Needs{
			Tools: rapid.Bool().Draw(t, "tools"), Vision: rapid.Bool().Draw(t, "vision"), JSONSchema: rapid.Bool().Draw(t, "schema"),
			Context: rapid.IntRange(0, 2000).Draw(t, "context"), Output: rapid.IntRange(0, 1200).Draw(t, "output"),
			Dialect: rapid.SampledFrom([]string{"", "", "openai", "anthropic"}).Draw(t, "native"),
		},
	}
}

func drawState(t *rapid.T, p *Policy) State {
	s := State{Now: now}
	table, live := costs{}, seen{latency: map[Target]time.Duration{}, down: map[Target]bool{}}
	for _, vendor := range p.Providers {
		for _, model := range vendor.Models {
			target := Target{vendor.Name, model.Name}
			if rapid.Bool().Draw(t, "priced") {
				table[target] = rapid.Int64Range(0, 3).Draw(t, "rate")
			}
			if rapid.Bool().Draw(t, "seen") {
				live.latency[target] = time.Duration(rapid.Int64Range(1, 5).Draw(t, "seconds")) * time.Second
			}
			live.down[target] = rapid.Bool().Draw(t, "down")
		}
	}
	s.Prices, s.Live = table, live
	target := Target{rapid.SampledFrom([]string{"p0", "p1", "base", "gone"}).Draw(t, "override"), rapid.SampledFrom([]string{"", "m1", "base"}).Draw(t, "override model")}
	switch rapid.IntRange(0, 3).Draw(t, "overridden") {
	case 0:
		s.Override.Pin = &target
	case 1:
		s.Override.Canary = &Canary{Target: target, Percentage: 100}
	}
	return s
}

// What holds of every plan, whatever the policy, the request and the state.
func TestPlanProperties(t *testing.T) {
	planned := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		r := drawRequest(t)
		s := drawState(t, p)
		plan, err := p.Plan(r, s)
		again, errAgain := p.Plan(r, s)
		if diff := cmp.Diff(plan, again); diff != "" || fmt.Sprint(err) != fmt.Sprint(errAgain) {
			t.Fatalf("the same inputs make another plan:\n%s%v, %v", diff, err, errAgain)
		}
		if err != nil {
			if len(plan.Candidates) != 0 {
				t.Fatalf("%v with candidates", err)
			}
			return
		}
		planned++
		checkPlan(t, p, r, s, plan)
	})
	if planned == 0 {
		t.Error("no request could be planned")
	}
}

func checkPlan(t *rapid.T, p *Policy, r Request, s State, plan Plan) {
	if len(plan.Candidates) == 0 {
		t.Fatal("an empty plan without an error")
	}
	open := r.Provider == "" && (r.Model == "" || r.Model == DefaultModel)
	if plan.Pinned && len(plan.Candidates) != 1 {
		t.Fatalf("%d candidates of a pin", len(plan.Candidates))
	}
	for _, c := range plan.Candidates {
		switch {
		case r.Substitution || open:
		case c.Substitute:
			t.Fatal("a substitute that was not allowed")
		case c.Model != plan.Candidates[0].Model:
			t.Fatalf("%s without substitution of %s", c.Target, plan.Candidates[0].Target)
		}
	}
	allowed, err := p.allowed(&r)
	if err != nil {
		t.Fatal("a plan for a refused classification")
	}
	operation := r.Operation
	if operation == OperationChat && r.Needs.Vision {
		operation = OperationVision
	}
	seen := make(map[Target]bool)
	for _, c := range plan.Candidates {
		o := p.byName[c.Provider].find(c.Model)
		switch lack, _ := o.lack(operation.index(), &r.Needs); {
		case seen[c.Target]:
			t.Fatalf("%s is there twice", c.Target)
		case allowed != nil && !allowed[o.provider.index]:
			t.Fatalf("%s may not see the data", c.Target)
		case lack != "":
			t.Fatalf("%s lacks %s", c.Target, lack)
		case slices.ContainsFunc(plan.Excluded, func(e Exclusion) bool { return e.Target == c.Target }):
			t.Fatalf("%s is planned and excluded", c.Target)
		case r.Provider != "" && c.Provider != r.Provider && !c.Substitute:
			t.Fatalf("%s stands in for %s and does not say so", c.Target, r.Provider)
		}
		seen[c.Target] = true
	}
	if r.Goal == GoalCost && !plan.Canary {
		checkCosts(t, r, s, plan)
	}
}

// checkCosts wants the known costs to rise, and unknown ones behind them, in
// each section of the plan: one ends where the model changes or the substitutes begin.
func checkCosts(t *rapid.T, r Request, s State, plan Plan) {
	cost := func(c Candidate) int64 {
		known := s.Prices.Cost(c.Provider, c.Model, s.Now, provider.Usage{Input: int64(max(r.Needs.Context, 1))})
		if !known.Known {
			return math.MaxInt64
		}
		return int64(known.Amount)
	}
	for i, c := range plan.Candidates[1:] {
		before := plan.Candidates[i]
		if before.Model == c.Model && before.Substitute == c.Substitute && !c.Substitute && cost(before) > cost(c) {
			t.Fatalf("%s (%d) is before %s (%d)", before.Target, cost(before), c.Target, cost(c))
		}
	}
}

// Latencies that were seen rise over a plan of one section.
func TestLatencyProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		s := drawState(t, p)
		s.Override = Override{}
		b := planner{policy: p, request: Request{Goal: GoalLatency}, state: s, goal: slices.Index(goals, GoalLatency)}
		for i := range p.Providers {
			for _, o := range p.byName[p.Providers[i].Name].offers {
				b.picked = append(b.picked, scored{offer: o, index: int32(len(b.picked))})
			}
		}
		b.rank(b.picked)
		var last int64
		for i := range b.picked {
			if latency, ok := s.Live.Latency(b.picked[i].candidate.Target); ok {
				if len(b.picked) > 1 && coarse(latency) < last {
					t.Fatalf("%s comes after a slower one", b.picked[i].candidate.Target)
				}
				last = coarse(latency)
			}
		}
	})
}
