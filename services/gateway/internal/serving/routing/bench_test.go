package routing

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/money/price/pricetest"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// twenty is a policy of twenty models at ten providers, all ranked and on the ladder, with prices.
func twenty(tb testing.TB, ladder int) (*policy.Policy, *price.Table, seen) {
	tb.Helper()
	var providers, rows, targets []string
	live := seen{latency: make(map[provider.Target]time.Duration)}
	for i := range 10 {
		providers = append(providers, fmt.Sprintf("{name: p%d, dialect: openai, features: [tools, json_schema], models: [{name: a%d, limits: {context: 100000, output: 9000}}, {name: shared, limits: {context: 100000}}]}", i, i))
		rows = append(rows, fmt.Sprintf(`{provider: p%d, models: [{model: a%d, effective_from: 2026-01-01, input_per_mtok_usd: %d, output_per_mtok_usd: 1}, {model: shared, effective_from: 2026-01-01, input_per_mtok_usd: %d, output_per_mtok_usd: 2}]}`, i, i, i+1, 20-i))
		for _, target := range []provider.Target{{Provider: fmt.Sprint("p", i), Model: fmt.Sprint("a", i)}, {Provider: fmt.Sprint("p", i), Model: "shared"}} {
			targets = append(targets, target.String())
			live.latency[target] = time.Duration(37*i%10+1) * 100 * time.Millisecond
		}
	}
	all := "[" + strings.Join(targets, ", ") + "]"
	p := policytest.Parse(tb, fmt.Sprintf("{default_model: p0/a0, providers: [%s], ladder: %s, goals: {cost: %s, latency: %s, quality: %s}, data_classification: [{organizations: ['*'], default: x, classifications: {x: allow}}]}",
		strings.Join(providers, ", "), "["+strings.Join(targets[:ladder], ", ")+"]", all, all, all))
	return p, pricetest.Table(tb, "providers: ["+strings.Join(rows, ", ")+"]"), live
}

func BenchmarkPlan(b *testing.B) {
	needs := Needs{Tools: true, Context: 3000, Output: 500}
	for _, c := range []struct {
		name    string
		ladder  int
		request Request
	}{
		{"named", 4, Request{Model: "p9/a9", Substitution: true}},
		{"named by cost", 4, Request{Model: "p9/a9", Goal: policy.GoalCost, Substitution: true}},
		{"ten hosts by latency", 4, Request{Model: "shared", Goal: policy.GoalLatency, Substitution: true}},
		{"no substitution", 4, Request{Model: "p9/a9"}},
		{"twenty candidates", 20, Request{Model: "p9/a9", Substitution: true}},
		{"twenty candidates by latency", 20, Request{Goal: policy.GoalLatency, Substitution: true}},
		{"twenty candidates by cost", 20, Request{Goal: policy.GoalCost, Substitution: true}},
	} {
		b.Run(c.name, func(b *testing.B) {
			p, table, live := twenty(b, c.ladder)
			state := State{Now: now, Prices: table, Live: live}
			c.request.Affinity, c.request.Needs = 7, needs
			b.ReportAllocs()
			for b.Loop() {
				if _, err := NewPlan(p, c.request, state); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkAffinity(b *testing.B) {
	c := chat(strings.Repeat("x", 4000))
	b.ReportAllocs()
	for b.Loop() {
		Affinity("acme", "", c)
	}
}
