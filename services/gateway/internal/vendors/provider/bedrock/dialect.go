package bedrock

import (
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
)

// Dialect returns the entry of this dialect in the list of package adapter.
func Dialect() provider.Dialect {
	return provider.Dialect{
		Name:       DialectName,
		Operations: provider.SetOf(provider.OperationChat, provider.OperationVision, provider.OperationEmbeddings),
		Reasons:    func(model string) bool { return isClaude(model) && anthropic.Reasons(model) },
		Forms:      func(provider.Settings) func(string) []string { return forms },
		Hints:      func(provider.Settings) func(string) provider.Hint { return hints },
		Terms:      terms,
		New:        func(s provider.Settings) (provider.Provider, error) { return New(s) },
	}
}

// forms returns the forms of requests that a model takes as their callers wrote them.
func forms(model string) []string {
	if isClaude(model) {
		return []string{anthropic.DialectName}
	}
	return nil
}

func hints(model string) provider.Hint {
	var takes provider.Hint
	if takesCachePoints(model) {
		takes |= provider.HintCachePoint
	}
	if isClaude(model) {
		takes |= provider.HintSignedThinking
	}
	return takes
}

// terms returns what a model refuses: for Claude what it refuses everywhere, and for every model what the dialect can't
// carry.
func terms(model string) provider.Terms {
	var t provider.Terms
	if isClaude(model) {
		t = anthropic.Terms(model)
		t.Relayed = new(t)
	} else {
		t.Obstacle = func(*provider.Chat) string { return "this model, which has no setting for it" }
	}
	t.Functions, t.Texts = provider.NameRule{Longest: 64}, provider.TextsNotBlank
	t.SystemApart, t.UserFirst = true, true
	t.RefusedInResults = familyOf(model).refusedInside
	if !enforces(model) {
		t.Loosen = anthropic.LoosenAll
	}
	return t
}

// isClaude reports whether a model is one of Anthropic's. The name may be that of an inference profile, such as
// "eu.anthropic.claude-opus-4-6-v1", or an ARN that ends in either. What stands behind the ARN of an application's
// profile is not known.
func isClaude(model string) bool { return strings.Contains(model, "anthropic.claude") }

// Versions of Claude from which a model has points of the prompt cache, such that live for an hour, and enforced schemas.
const (
	firstCached   = 305
	firstHourly   = 405
	firstEnforced = 405
)

func takesCachePoints(model string) bool {
	return isClaude(model) && anthropic.Version(model) >= firstCached || strings.Contains(model, "amazon.nova")
}

func cachesForAnHour(model string) bool {
	return isClaude(model) && anthropic.Version(model) >= firstHourly
}

// enforcing are parts of the names of other models that enforce schemas.
var enforcing = []string{
	"deepseek.v3", "google.gemma-3", "minimax.minimax", "moonshot", "nvidia.nemotron", "openai.gpt-oss", "qwen.qwen3",
}

// enforces reports whether a model's output can be constrained to a schema: its text, and the arguments of its calls.
func enforces(model string) bool {
	if isClaude(model) {
		return anthropic.Version(model) >= firstEnforced
	}
	return slices.ContainsFunc(enforcing, func(part string) bool { return strings.Contains(model, part) })
}
