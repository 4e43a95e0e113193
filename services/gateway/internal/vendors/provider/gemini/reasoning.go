package gemini

import (
	"regexp"
	"strconv"
	"strings"

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
		least, most := budgetsOf(model)
		config.Budget = new(min(max(asked.Budget(), least), most))
	}
	if *config == (thinkingConfig{}) {
		return nil
	}
	return config
}

// levelsOf returns the levels that a model takes, least first.
func levelsOf(model string) []provider.Effort {
	if strings.Contains(model, "pro") {
		return []provider.Effort{provider.EffortLow, provider.EffortHigh}
	}
	return []provider.Effort{provider.EffortMinimal, provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
}

// budgetsOf returns the range of budgets that a model takes, in tokens; 0 switches thinking off where it can be.
func budgetsOf(model string) (least, most int) {
	if strings.Contains(model, "pro") {
		return 128, 32768
	}
	return 0, 24576
}
