package openai

import (
	"net/url"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// traits are the differences between servers of the dialect.
type traits struct {
	// completionTokens: the limit is called max_completion_tokens (OpenAI's reasoning models refuse max_tokens);
	// compatible servers support only max_tokens.
	completionTokens bool
	// streamUsage: stream_options are accepted, and usage is then sent.
	streamUsage bool
	// obfuscates: chunks are padded unless the request switches it off.
	obfuscates bool
	// strict: unknown fields are refused, such as extra_content.
	strict bool
	// enforces: strict schemas follow OpenAI's rules, function schemas must be of objects with properties, documents
	// must be PDFs or texts, and IDs of tool calls have at most 40 characters. Other servers differ.
	enforces bool
	// reasoning: how the server is told how much to think.
	reasoning ReasoningStyle
	// thoughts: the member in which the server accepts the reasoning of earlier turns, no matter which server wrote it;
	// empty for none.
	thoughts string
	// needsThoughts: turns with calls but without reasoning are refused.
	needsThoughts bool
	// responses: the server has the Responses API.
	responses bool
	// batches: the server runs batch jobs.
	batches bool
	// encrypts: reasoning comes encrypted from the Responses API to requests that ask for it. Other servers may refuse to.
	encrypts bool
	// textParts: system and user messages may be lists of texts. Many compatible servers accept only a string.
	textParts bool
	// mistral: requests are checked by Mistral's validator, which requires nine letters or digits as IDs of tool calls,
	// and the assistant's turn between results and the user's.
	mistral bool
	// hints are those that the server takes for some models.
	hints provider.Hint
}

// usualHints are the hints that servers of the dialect take.
const usualHints = provider.HintSeed | provider.HintPenalties | provider.HintOneCall

// takes returns the hints that the server takes for a model. Models that reason or search refuse penalties, OpenAI's
// o-series also refuses parallel_tool_calls, and only models of GPT-5 and later take a verbosity. A server that isn't
// strict may be Google's own, which knows its signatures in this form.
func (t traits) takes(model string) provider.Hint {
	takes := t.hints
	if reasons(model) || searches(model) {
		takes &^= provider.HintPenalties
	}
	if oSeries.MatchString(bareName(model)) {
		takes &^= provider.HintOneCall
	}
	if major, _ := gptVersionOf(model); major < 5 {
		takes &^= provider.HintVerbosity
	}
	if !t.strict {
		takes |= provider.HintThoughtSignature
	}
	if t.thoughts != "" {
		takes |= provider.HintReasoning
	}
	return takes
}

// traitsOf returns the traits of known hosts; the configuration takes precedence.
func traitsOf(base *url.URL, settings provider.Settings) traits {
	t := traits{streamUsage: true, hints: usualHints}
	host := base.Hostname()
	switch {
	case host == "api.openai.com":
		t = traits{completionTokens: true, streamUsage: true, obfuscates: true, strict: true, enforces: true, textParts: true, encrypts: true}
		t.responses, t.batches, t.hints = true, true, usualHints|provider.HintVerbosity|provider.HintEndUser|provider.HintCacheKey
	case settings.APIVersion != "", strings.HasSuffix(host, ".azure.com") && strings.HasPrefix(base.Path, "/openai/"):
		t = traits{completionTokens: true, streamUsage: true, strict: true, enforces: true, textParts: true, encrypts: true, hints: usualHints}
		t.responses = settings.APIVersion == ""
	case strings.HasSuffix(host, ".api.aws"), strings.HasSuffix(host, ".amazonaws.com"): // OpenAI's own models on Amazon Bedrock.
		t = traits{completionTokens: true, streamUsage: true, hints: usualHints}
	case host == "api.mistral.ai": // Usage comes in the last chunk by itself. A seed has another name.
		t = traits{strict: true, mistral: true, hints: usualHints &^ provider.HintSeed}
	}
	if settings.StreamUsage != nil {
		t.streamUsage = *settings.StreamUsage
	}
	t.reasoning = styleOf(base, settings.ReasoningStyle)
	switch t.reasoning {
	case ReasoningThinking:
		t.thoughts, t.needsThoughts = memberReasoningContent, true
	case ReasoningEnable, ReasoningTemplate:
		t.thoughts = memberReasoningContent
	case ReasoningNested:
		t.thoughts = memberReasoning
	case ReasoningEffort:
	}
	if settings.Responses != nil {
		t.responses = *settings.Responses
	}
	if settings.Batches != nil {
		t.batches = *settings.Batches
	}
	t.mistral = t.mistral || settings.ShortToolIDs
	return t
}
