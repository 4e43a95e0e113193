package policy_test

import (
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/policy/policytest"
)

func TestHedge(t *testing.T) {
	p := policytest.Parse(t, policytest.Wide+"hedge: {latency: {budget_percent: 2}, quality: {budget_percent: 0.5, after: 3s}}\n")
	want := map[policy.Goal]policy.Hedge{
		policy.GoalLatency: {BudgetPercent: 2, Goal: policy.GoalLatency}, policy.GoalQuality: {BudgetPercent: 0.5, After: 3 * time.Second, Goal: policy.GoalQuality}, policy.GoalCost: {}, "speed": {},
		"": {BudgetPercent: 0.5, After: 3 * time.Second, Goal: policy.GoalQuality}, // Quality is the default goal.
	}
	for goal, want := range want {
		if got := p.Hedge(goal); got != want || got.On() != (want.BudgetPercent > 0) {
			t.Errorf("%q: %+v, want %+v", goal, got, want)
		}
	}
	for _, goal := range policy.Goals() {
		if policytest.Parse(t, policytest.Wide).Hedge(goal).On() {
			t.Errorf("%s is hedged, though the policy says nothing", goal)
		}
	}
}

func TestHedgeProblems(t *testing.T) {
	for text, want := range map[string]string{
		"{latency: {}}":                                             "hedge.latency.budget_percent: want more than 0, at most 20",
		"{latency: {budget_percent: -1}}":                           "hedge.latency.budget_percent: want more than 0, at most 20",
		"{latency: {budget_percent: 20.1}}":                         "hedge.latency.budget_percent: want more than 0, at most 20",
		"{latency: {budget_percent: .nan}}":                         "hedge.latency.budget_percent: want more than 0, at most 20",
		"{cost: {budget_percent: 1, after: 9ms}}":                   "hedge.cost.after: want at least 10ms",
		"{cost: {budget_percent: 1, after: -1s}}":                   "hedge.cost.after: want at least 10ms",
		"{cost: {budget_percent: 0}, latency: {budget_percent: 0}}": "policy: hedge.latency.budget_percent: want",
		"{speed: {budget_percent: 1}}":                              "hedge.speed: want cost, latency or quality",
		"{cost: {percent: 1}}":                                      "line 48: field percent: there is no such field",
		"{cost: {budget_percent: 1, after: soon}}":                  "line 48: want a duration such as 30s, not a text",
	} {
		_, err := policy.Parse(policy.Source{Text: []byte(policytest.Wide + "hedge: " + text)}, policy.Source{})
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q in it", text, err, want)
		}
	}
}
