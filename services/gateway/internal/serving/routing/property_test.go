package routing

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.yaml.in/yaml/v3"
	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/steering"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// costs are prices that a test makes up: an amount for a token of input, none for some models.
type costs map[provider.Target]int64

func (c costs) Cost(of, model string, _ time.Time, u provider.Usage) price.Cost {
	rate, ok := c[provider.Target{Provider: of, Model: model}]
	return price.Cost{Amount: price.Pico(rate * u.Input), Known: ok}
}

// drawPolicy draws a policy of a few providers and models, with random ranks, ladders and rules.
func drawPolicy(t *rapid.T) *policy.Policy {
	var providers []any
	var all []string
	for i := range rapid.IntRange(1, 5).Draw(t, "providers") {
		name := fmt.Sprint("p", i)
		models := drawModels(t)
		for _, model := range models {
			all = append(all, name+"/"+model["name"].(string)) // drawModels gives each a name.
		}
		providers = append(providers, map[string]any{
			"name": name, "base_url": "https://vendor.example", "models": models,
			"dialect": rapid.SampledFrom([]string{"openai", "anthropic", "gemini", "cohere", "sandbox"}).Draw(t, "dialect"),
			"regions": rapid.SliceOfN(rapid.SampledFrom([]string{"eu", "us"}), 0, 2).Draw(t, "regions"),
			"tags":    rapid.SliceOfN(rapid.SampledFrom([]string{"zdr", "local"}), 0, 2).Draw(t, "tags"),
		})
	}
	all = append(all, "base/base")
	goals := map[policy.Goal][]string{}
	for _, goal := range policy.Goals() {
		goals[goal] = rapid.SliceOfNDistinct(rapid.SampledFrom(all), 0, 4, rapid.ID).Draw(t, "ranks")
	}
	doc := map[string]any{
		"providers":     append(providers, map[string]any{"name": "base", "dialect": "sandbox", "models": []string{"base"}}),
		"default_model": "base/base", "goals": goals,
		"ladder": rapid.SliceOfN(rapid.SampledFrom(all), 0, 4).Draw(t, "ladder"),
	}
	if rapid.Bool().Draw(t, "rules") {
		doc["data_classification"] = []any{map[string]any{"organizations": []string{"*"}, "classifications": map[string]any{
			"named": map[string]any{"providers": []string{"base"}}, "eu": map[string]any{"regions": []string{"eu"}},
			"zdr": map[string]any{"tags": []string{"zdr"}}, "no": "deny", "all": "allow",
		}}}
	}
	text, err := yaml.Marshal(doc)
	if err != nil {
		t.Fatal(err)
	}
	p, err := policy.Parse(policy.Source{Text: text}, policy.Source{})
	if err != nil {
		t.Fatalf("%v:\n%s", err, text)
	}
	return p
}

// drawModels draws the models of a provider, with capabilities of their own or without.
func drawModels(t *rapid.T) []map[string]any {
	features := rapid.SampledFrom([]string{"tools", "parallel_tools", "json_object", "json_schema", "image_urls"})
	var models []map[string]any
	for _, name := range rapid.SliceOfNDistinct(rapid.StringMatching(`[mn][1-4]`), 0, 4, rapid.ID).Draw(t, "models") {
		model := map[string]any{"name": name, "identity": rapid.SampledFrom([]string{"", "", "m", "n"}).Draw(t, "identity")}
		if rapid.Bool().Draw(t, "limited") {
			model["features"] = rapid.SliceOfNDistinct(features, 0, 5, rapid.ID).Draw(t, "features")
			model["operations"] = rapid.SliceOfNDistinct(rapid.SampledFrom(provider.Operations()), 1, 4, rapid.ID).Draw(t, "operations")
			model["limits"] = map[string]int{"context": rapid.IntRange(0, 1000).Draw(t, "context"), "output": rapid.IntRange(0, 1000).Draw(t, "output")}
		}
		models = append(models, model)
	}
	return models
}

func drawRequest(t *rapid.T) Request {
	return Request{
		Operation:      rapid.SampledFrom(provider.Operations()).Draw(t, "operation"),
		Organization:   "acme",
		Classification: rapid.SampledFrom([]string{"", "named", "eu", "zdr", "no", "all", "unknown"}).Draw(t, "classification"),
		Model:          rapid.SampledFrom([]string{"", "default", "m1", "m2", "n1", "p0/m1", "p1/n2", "base", "m", "p0/n"}).Draw(t, "model"),
		Provider:       rapid.SampledFrom([]string{"", "", "", "p0", "base"}).Draw(t, "provider"),
		Goal:           rapid.SampledFrom([]policy.Goal{"", policy.GoalCost, policy.GoalLatency, policy.GoalQuality}).Draw(t, "goal"),
		Substitution:   rapid.Bool().Draw(t, "substitution"),
		Affinity:       rapid.Uint64Range(0, 3).Draw(t, "affinity"),
		Needs: Needs{
			Tools: rapid.Bool().Draw(t, "tools"), Vision: rapid.Bool().Draw(t, "vision"), JSONSchema: rapid.Bool().Draw(t, "schema"),
			Context: rapid.IntRange(0, 2000).Draw(t, "context"), Output: rapid.IntRange(0, 1200).Draw(t, "output"),
			Dialect: rapid.SampledFrom([]string{"", "", "openai", "anthropic"}).Draw(t, "native"),
		},
	}
}

func drawState(t *rapid.T, p *policy.Policy) State {
	s := State{Now: now}
	table, live := costs{}, seen{latency: map[provider.Target]time.Duration{}, down: map[provider.Target]bool{}}
	for _, vendor := range p.Providers {
		for _, model := range vendor.Models {
			target := provider.Target{Provider: vendor.Name, Model: model.Name}
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
	target := provider.Target{Provider: rapid.SampledFrom([]string{"p0", "p1", "base", "gone"}).Draw(t, "override"), Model: rapid.SampledFrom([]string{"", "m1", "base"}).Draw(t, "override model")}
	switch rapid.IntRange(0, 3).Draw(t, "overridden") {
	case 0:
		s.Override.Pin = &target
	case 1:
		s.Override.Canary = &steering.Canary{Target: target, Percentage: 100}
	}
	return s
}

// Invariants of every plan, whatever the policy, the request and the state.
func TestPlanProperties(t *testing.T) {
	planned := 0
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		r := drawRequest(t)
		s := drawState(t, p)
		plan, err := NewPlan(p, r, s)
		again, errAgain := NewPlan(p, r, s)
		if diff := cmp.Diff(plan, again, cmpopts.IgnoreFields(provider.Terms{}, "Loosen", "Obstacle")); diff != "" || fmt.Sprint(err) != fmt.Sprint(errAgain) {
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

func checkPlan(t *rapid.T, p *policy.Policy, r Request, s State, plan Plan) {
	if len(plan.Candidates) == 0 {
		t.Fatal("an empty plan without an error")
	}
	open := r.Provider == "" && (r.Model == "" || r.Model == policy.DefaultModel)
	if plan.Pinned && len(plan.Candidates) != 1 {
		t.Fatalf("%d candidates of a pin", len(plan.Candidates))
	}
	for _, c := range plan.Candidates {
		switch {
		case r.Substitution || open:
		case c.Substitute:
			t.Fatal("a substitute that was not allowed")
		case c.Model != plan.Candidates[0].Model && !c.IsSameModel(&plan.Candidates[0]):
			t.Fatalf("%s without substitution of %s", c.Target, plan.Candidates[0].Target)
		}
	}
	access, err := p.Access(r.Organization, r.Classification)
	if err != nil {
		t.Fatal("a plan for a refused classification")
	}
	operation := r.Operation
	if operation == provider.OperationChat && r.Needs.Vision {
		operation = provider.OperationVision
	}
	seen := make(map[provider.Target]bool)
	for _, c := range plan.Candidates {
		o := p.Offer(c.Target)
		switch lack, _ := lackOf(o, operation, &r.Needs); {
		case seen[c.Target]:
			t.Fatalf("%s is there twice", c.Target)
		case !access.Admits(o):
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
	if r.Goal == policy.GoalCost && !plan.Canary {
		checkCosts(t, r, s, plan)
	}
}

// checkCosts checks that in each section of the plan the known costs rise and unknown ones follow. A section ends where
// the model changes or the substitutes begin.
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
		sameSection := before.Model == c.Model && before.Substitute == c.Substitute && !c.Substitute
		if sameSection && cost(before) > cost(c) {
			t.Fatalf("%s (%d) is before %s (%d)", before.Target, cost(before), c.Target, cost(c))
		}
	}
}

// The known latencies rise over a plan of one section.
func TestLatencyProperty(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := drawPolicy(t)
		s := drawState(t, p)
		s.Override = steering.Override{}
		b := planner{policy: p, request: Request{Goal: policy.GoalLatency}, state: s, goal: policy.GoalLatency}
		for i := range p.Providers {
			for _, model := range p.Providers[i].Models {
				o := p.Offer(provider.Target{Provider: p.Providers[i].Name, Model: model.Name})
				b.picked = append(b.picked, scored{Offer: o, index: int32(len(b.picked))})
			}
		}
		b.rank(b.picked)
		var last int64
		for i := range b.picked {
			if latency, ok := s.Live.Latency(b.picked[i].Target); ok {
				if len(b.picked) > 1 && coarse(latency) < last {
					t.Fatalf("%s comes after a slower one", b.picked[i].Target)
				}
				last = coarse(latency)
			}
		}
	})
}
