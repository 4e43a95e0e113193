package provider_test

import (
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestReasoning(t *testing.T) {
	for _, c := range []struct {
		asked  *provider.Reasoning
		level  provider.Effort
		budget int
	}{
		{nil, "", 0},
		{&provider.Reasoning{}, "", 0},
		{&provider.Reasoning{Required: true, Summary: "auto"}, "", 0},
		{&provider.Reasoning{Effort: "none"}, "none", 0},
		{&provider.Reasoning{Effort: "high"}, "high", 16384},
		{&provider.Reasoning{BudgetTokens: 1}, "minimal", 1},
		{&provider.Reasoning{BudgetTokens: 8191}, "low", 8191},
		{&provider.Reasoning{BudgetTokens: 1 << 20}, "max", 1 << 20},
		{&provider.Reasoning{Effort: "low", BudgetTokens: 20000}, "low", 20000},
		{&provider.Reasoning{Effort: "strange"}, "strange", 0},
	} {
		if level, budget := c.asked.Level(), c.asked.Budget(); level != c.level || budget != c.budget {
			t.Errorf("%+v: %q and %d tokens, want %q and %d", c.asked, level, budget, c.level, c.budget)
		}
	}
	for _, effort := range []provider.Effort{"minimal", "low", "medium", "high", "xhigh", "max"} {
		asked := &provider.Reasoning{Effort: effort}
		if back := (&provider.Reasoning{BudgetTokens: asked.Budget()}).Level(); back != effort || !effort.IsKnown() {
			t.Errorf("%s became %s on its way there and back", effort, back)
		}
	}
}

func TestEffortWithin(t *testing.T) {
	for _, c := range []struct {
		effort provider.Effort
		levels []provider.Effort
		want   provider.Effort
	}{
		{"medium", []provider.Effort{"low", "medium", "high"}, "medium"},
		{"max", []provider.Effort{"low", "medium", "high"}, "high"},
		{"none", []provider.Effort{"low", "medium", "high"}, "low"},
		{"minimal", []provider.Effort{"none", "low"}, "none"},
		{"medium", []provider.Effort{"low", "high"}, "low"},
		{"strange", []provider.Effort{"low", "high"}, "low"},
	} {
		if got := c.effort.Within(c.levels...); got != c.want {
			t.Errorf("%s within %v: %s, want %s", c.effort, c.levels, got, c.want)
		}
	}
	if provider.Effort("strange").IsKnown() {
		t.Error("a strange effort is known")
	}
}
