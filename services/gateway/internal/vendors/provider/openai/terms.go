package openai

import (
	"regexp"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
)

// terms returns what a model refuses. Source: OpenAI API reference, "Chat"; guide "Reasoning models" and its notes on
// the parameters of each generation. Models of other vendors have only a rule for function names.
func terms(model string) provider.Terms {
	t := provider.Terms{Functions: provider.NameRule{Longest: 64}}
	major, minor := gptVersionOf(model)
	if major > 0 && major < 5 {
		t.Refused |= provider.HintVerbosity
	}
	if major > 0 || oSeries.MatchString(bareName(model)) {
		t.RefusedInResults = provider.AttachedAll
	}
	if !reasonsAtOpenAI(model) {
		if major > 0 {
			t.Stops, t.NoReasoning = 4, true
		}
		if searches(model) {
			t.Sampling = provider.SamplingDefault
			t.Refused |= provider.HintPenalties
		}
		return t
	}
	t.Sampling, t.Stops = provider.SamplingDefault, provider.NoStops
	t.SamplesWithoutReasoning = takesSampling(model)
	t.ReasonsOnRequest = major == 5 && minor > 0 && minor <= lastOnRequest && !alwaysReasons.MatchString(bareName(model))
	t.Refused |= provider.HintPenalties
	if oSeries.MatchString(bareName(model)) {
		t.Refused |= provider.HintOneCall
	}
	return t
}

// lastOnRequest is the last minor version of GPT-5 whose effort is none by default, and alwaysReasons matches models of
// these versions with another default. Source: OpenAI API reference, "reasoning_effort", and the models' pages.
const lastOnRequest = 4

var alwaysReasons = regexp.MustCompile(`-(pro|codex)\b`)

// ownReasoners matches OpenAI's own reasoning models, and the gpt-5-chat models.
var ownReasoners = regexp.MustCompile(`^(o[1-9](-|$)|gpt-([5-9]|[1-9]\d)([.-]|$)|codex-)`)

func reasonsAtOpenAI(model string) bool {
	name := bareName(model)
	return ownReasoners.MatchString(name) && !isGPT5Chat(name)
}

// searches reports whether a model searches the web before each answer, such as gpt-4o-search-preview. These models
// refuse temperature, top_p and penalties.
func searches(model string) bool { return strings.Contains(bareName(model), "-search-preview") }

// takesSampling reports whether a reasoning model accepts temperature and top_p in requests that turn reasoning off.
// GPT-5.1 and later do.
func takesSampling(model string) bool {
	major, minor := gptVersionOf(model)
	return major > 5 || major == 5 && minor > 0
}

// arguments returns what the server requires of function schemas.
func (t traits) arguments() schema.Arguments {
	return schema.Arguments{Listed: t.enforces, NoUnion: t.enforces}
}
