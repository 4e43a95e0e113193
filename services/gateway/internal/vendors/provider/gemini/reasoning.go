package gemini

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// thinkingConfig is how much to think. Source: Gemini API, "Thinking": a level from Gemini 3 on, a budget before; both
// together are refused.
type thinkingConfig struct {
	Level           string `json:"thinkingLevel,omitempty"`
	Budget          *int   `json:"thinkingBudget,omitempty"`
	IncludeThoughts bool   `json:"includeThoughts,omitempty"`
}

var modelVersion = regexp.MustCompile(`^gemini-(\d+)(?:\.(\d+))?`)

// versionOf returns the version of a model as a number, 25 for 2.5; 0 for a name of another form.
func versionOf(model string) int {
	found := modelVersion.FindStringSubmatch(bare(model))
	if found == nil {
		return 0
	}
	major, _ := strconv.Atoi(found[1]) // Digits; one that is too large counts as 0.
	minor, _ := strconv.Atoi(found[2])
	return 10*major + minor
}

// Versions from which models think, and those from which they take a level.
const (
	firstThinking = 25
	firstLevels   = 30
)

// reasons reports whether a model is known to think. Models that generate images do from Gemini 3 on.
func reasons(model string) bool {
	v := versionOf(model)
	return v >= firstLevels || v >= firstThinking && !strings.Contains(model, "-image")
}

// encodeReasoning returns the setting for a model; nil where the caller asks for nothing.
func encodeReasoning(model string, asked *provider.Reasoning) *thinkingConfig {
	if asked == nil {
		return nil
	}
	config := &thinkingConfig{IncludeThoughts: asked.Summary != ""}
	level := asked.Level()
	switch {
	case level == "":
	case versionOf(model) >= firstLevels:
		config.Level = strings.ToUpper(string(level.Within(levelsOf(model)...)))
	default:
		config.Budget = new(budgetWithin(model, asked.Budget()))
	}
	if *config == (thinkingConfig{}) {
		return nil
	}
	return config
}

// levelsOf returns the levels that a model takes, least first.
func levelsOf(model string) []provider.Effort {
	switch isPro := strings.Contains(model, "pro"); {
	case isPro && versionOf(model) == firstLevels:
		return []provider.Effort{provider.EffortLow, provider.EffortHigh}
	case isPro:
		return []provider.Effort{provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
	}
	return []provider.Effort{provider.EffortMinimal, provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
}

// budgetWithin returns the budget nearest to n that a model before firstLevels takes, in tokens. 0 switches thinking off
// where that is possible.
func budgetWithin(model string, n int) int {
	switch {
	case strings.Contains(model, "pro"):
		return min(max(n, 128), 32768)
	case strings.Contains(model, "-lite") && n > 0:
		n = max(n, 512)
	}
	return min(max(n, 0), 24576)
}

// dynamicBudget leaves the budget to the model.
const dynamicBudget = -1

// acceptedThinking returns the JSON of a body's thinkingConfig as the model accepts it: with a budget before firstLevels,
// and with a level that the model knows. If there are both, from firstLevels on the level holds. Members have either of
// the two forms of their names that the API reads.
func acceptedThinking(model string, given gjson.Result) string {
	v := versionOf(model)
	level, levelName := memberOf(given, "thinkingLevel", "thinking_level")
	budget, budgetName := memberOf(given, "thinkingBudget", "thinking_budget")
	effort := provider.Effort(strings.ToLower(level.Str))
	out := given.Raw
	switch {
	case v >= firstLevels && effort.IsKnown():
		if known := effort.Within(levelsOf(model)...); known != effort {
			out, _ = sjson.Set(out, levelName, strings.ToUpper(string(known)))
		}
		if budget.Exists() {
			out, _ = sjson.Delete(out, budgetName)
		}
	case v >= firstThinking && v < firstLevels:
		asked := provider.Reasoning{Effort: effort, BudgetTokens: int(budget.Int())}
		within := budgetWithin(model, asked.Budget())
		if effort.IsKnown() {
			out, _ = sjson.Delete(out, levelName)
		}
		isFixed := budget.Type == gjson.Number && budget.Int() != dynamicBudget
		if isFixed && int64(within) != budget.Int() || !budget.Exists() && effort.IsKnown() {
			out, _ = sjson.Set(out, budgetName, within)
		}
	}
	return out
}

// memberOf returns a member of an object that has either of two names, and that name; the first for an absent member.
func memberOf(object gjson.Result, camel, snake string) (value gjson.Result, name string) {
	if value = object.Get(camel); value.Exists() {
		return value, camel
	}
	if value = object.Get(snake); value.Exists() {
		return value, snake
	}
	return value, camel
}
