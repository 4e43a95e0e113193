package anthropic

import (
	"cmp"
	"regexp"
	"strconv"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// ThinkingConfig asks for thinking. Source: Anthropic API reference, "Extended thinking" and "Adaptive thinking".
type ThinkingConfig struct {
	Type    string `json:"type"`
	Budget  int    `json:"budget_tokens,omitempty"`
	Display string `json:"display,omitempty"`
}

// summarized is the display that shows the thinking. Models from firstUnbudgeted on omit it by default, so that an answer
// is billed for thinking that it doesn't hold; earlier models show it.
const summarized = "summarized"

// Bounds of a thinking budget, in tokens, and of settings that exclude thinking.
const (
	leastBudget = 1024
	// leastTopP is the lowest top_p that the vendor allows with thinking.
	leastTopP = 0.95
	// answerRoom is what is left for the answer where the caller did not bound the output.
	answerRoom = 4096
	// largestOutput is the output limit of the models that think with a budget, and largestOpus4 of Opus 4 and 4.1.
	// Source: Anthropic's documentation, "Models overview".
	largestOutput, largestOpus4 = 64_000, 32_000
)

// version matches the version in a model's name. Hosts write it with dashes or dots, before or after the family:
// "claude-3-7-sonnet", "claude-sonnet-4.5", "us.anthropic.claude-opus-4-6-v1", "claude-haiku-4-5@20251001". A longer
// number is a date.
var version = regexp.MustCompile(`claude-(?:[a-z]+-)*v?(\d{1,2})(?:[.-](\d{1,2}))?(?:$|\D)`)

// newest is the version of Claude models whose names have no version: future names and moving aliases.
const newest = 99_00

// Version returns a model's version as a number, 406 for 4.6; newest for a Claude model without a version in its name,
// and 0 for other models.
func Version(model string) int {
	model = strings.ToLower(model)
	found := version.FindStringSubmatch(model)
	switch {
	case found != nil:
	case strings.Contains(model, "claude-"):
		return newest
	default:
		return 0
	}
	major, _ := strconv.Atoi(found[1]) // Two digits at most.
	minor, _ := strconv.Atoi(found[2])
	return 100*major + minor
}

// Versions from which models think, adaptively, and know the effort xhigh.
const (
	firstThinking = 307
	firstAdaptive = 406
	firstXHigh    = 407
)

// Reasons reports whether a model is known to think.
func Reasons(model string) bool { return Version(model) >= firstThinking }

// ThinkingPlan is what a request says of thinking.
type ThinkingPlan struct {
	// Config is nil for a request that says nothing.
	Config *ThinkingConfig
	// Effort is empty where the vendor is to choose it.
	Effort provider.Effort
	// MaxTokens is the largest output, with room for the thinking.
	MaxTokens int
}

// PlanThinking returns how a chat with a largest output asks for thinking. limit is the model's configured limit of
// output tokens; 0 for none. Terms.Fit must have adapted the chat, so that nothing in it excludes thinking.
func PlanThinking(chat *provider.Chat, maxTokens, limit int) ThinkingPlan {
	plan, asked := ThinkingPlan{MaxTokens: maxTokens}, chat.Reasoning
	if asked == nil || asked.Level() == provider.EffortNone {
		return plan
	}
	if v := Version(chat.Model); v >= firstAdaptive {
		plan.Config = &ThinkingConfig{Type: "adaptive"}
		if v >= firstUnbudgeted {
			plan.Config.Display = summarized
		}
		if level := asked.Level(); level != "" {
			plan.Effort = level.Within(adaptiveLevels(v)...)
		}
		return plan
	}
	plan.think(asked, chat.MaxTokens == 0, cmp.Or(limit, outputLimitOf(chat.Model)))
	return plan
}

// outputLimitOf returns the output limit of a model that thinks with a budget, by its name.
func outputLimitOf(model string) int {
	if v := Version(model); v >= 400 && v <= 401 && isOpus(model) {
		return largestOpus4
	}
	return largestOutput
}

func adaptiveLevels(v int) []provider.Effort {
	levels := []provider.Effort{provider.EffortLow, provider.EffortMedium, provider.EffortHigh}
	if v >= firstXHigh {
		levels = append(levels, provider.EffortXHigh)
	}
	return append(levels, provider.EffortMax)
}

// think asks for thinking with a budget, which is a part of the output. If the caller did not bound the output, it gets
// room for thinking and answer up to limit. If that is too little for both, the budget gets less.
func (p *ThinkingPlan) think(asked *provider.Reasoning, open bool, limit int) {
	budget := max(asked.Budget(), leastBudget)
	if asked.Level() == "" {
		budget = (&provider.Reasoning{Effort: provider.EffortMedium}).Budget()
	}
	switch {
	case open:
		p.MaxTokens = min(max(p.MaxTokens, budget+answerRoom), limit)
		budget = max(min(budget, p.MaxTokens-answerRoom), leastBudget)
	case asked.BudgetTokens == 0: // An effort leaves half of the caller's limit to the answer.
		budget = max(min(budget, p.MaxTokens/2), leastBudget)
	}
	p.Config = &ThinkingConfig{Type: "enabled", Budget: min(budget, p.MaxTokens-1)}
}

// obstacleTo returns what in a request makes the vendor refuse to think with it, as the end of a sentence; empty for
// nothing. Models from firstUnsampled on get no sampling settings.
func obstacleTo(chat *provider.Chat) string {
	isSampled := Version(chat.Model) < firstUnsampled
	switch {
	case isSampled && chat.Temperature != nil && *chat.Temperature != 1:
		return "a temperature other than 1"
	case isSampled && chat.TopP != nil && *chat.TopP < leastTopP:
		return "a top_p below 0.95"
	case chat.ToolChoice != nil && (chat.ToolChoice.Mode == "required" || chat.ToolChoice.Mode == "tool"):
		return "a tool choice that requires a call"
	case Version(chat.Model) < firstAdaptive && lacksReasoning(chat.Messages):
		return "tool calls that were made without thinking"
	case Version(chat.Model) < firstAdaptive && beginsAnswer(chat.Messages):
		return "the beginning of an answer"
	case Version(chat.Model) < firstAdaptive && chat.MaxTokens > 0 && chat.MaxTokens <= leastBudget:
		return "max_tokens below 1025: it thinks with 1024 tokens at least"
	}
	return ""
}

// beginsAnswer reports whether the last message is the beginning of an answer that the model should continue. With
// thinking, models before firstAdaptive refuse it, because no thinking is before it. Under a strict schema, all do.
func beginsAnswer(messages []provider.Message) bool {
	last := len(messages) - 1
	return last >= 0 && messages[last].Role == provider.RoleAssistant
}

// lacksReasoning reports whether a conversation ends with tool results whose calls carry no thinking of this vendor.
// User and system messages after the results are sent in the same turn. Models before firstAdaptive refuse to begin
// thinking in such a turn.
func lacksReasoning(messages []provider.Message) bool {
	i, results := len(messages)-1, false
	for ; i >= 0 && messages[i].Role != provider.RoleAssistant; i-- {
		results = results || messages[i].Role == provider.RoleTool
	}
	if i < 0 || !results || len(messages[i].ToolCalls) == 0 {
		return false
	}
	for _, call := range messages[i].ToolCalls {
		if thought, err := ThinkingOf(call); err == nil && (thought.Lead != nil || thought.Before != nil) {
			return false
		}
	}
	return true
}
