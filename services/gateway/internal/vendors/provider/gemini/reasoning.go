package gemini

import (
	"regexp"
	"strconv"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
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

// acceptedThinking returns the JSON of a body's thinkingConfig as the model accepts it: with a budget within its bounds
// before firstLevels, and after that with a level that it knows. The face refuses both together.
func acceptedThinking(model string, given gjson.Result) string {
	v := versionOf(model)
	level, levelName := memberOf(given, "thinkingLevel", "thinking_level")
	budget, budgetName := memberOf(given, "thinkingBudget", "thinking_budget")
	effort := provider.Effort(strings.ToLower(level.Str))
	var edits []wire.Member
	switch {
	case v >= firstLevels && effort.IsKnown():
		if known := effort.Within(levelsOf(model)...); known != effort {
			edits = []wire.Member{{Name: levelName, Value: strconv.Quote(strings.ToUpper(string(known)))}}
		}
	case v >= firstLevels || v < firstThinking:
	case effort.IsKnown():
		asked := provider.Reasoning{Effort: effort}
		within := budgetWithin(model, asked.Budget())
		edits = []wire.Member{{Name: levelName}, {Name: budgetName, Value: strconv.Itoa(within)}}
	case budget.Type == gjson.Number && budget.Int() != dynamicBudget:
		if within := budgetWithin(model, int(budget.Int())); int64(within) != budget.Int() {
			edits = []wire.Member{{Name: budgetName, Value: strconv.Itoa(within)}}
		}
	}
	if edits == nil {
		return given.Raw
	}
	return string(wire.Override([]byte(given.Raw), edits...))
}

// memberOf returns the member of an object that has one of the two forms of a name that the API reads, and that form. A
// null is an absent member.
func memberOf(object gjson.Result, camel, snake string) (value gjson.Result, name string) {
	for _, name := range []string{camel, snake} {
		if value := object.Get(name); value.Exists() && value.Type != gjson.Null {
			return value, name
		}
	}
	if object.Get(snake).Exists() {
		return gjson.Result{}, snake
	}
	return gjson.Result{}, camel
}
