package openai

import (
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// requestFields are those of a chat. Source: OpenAI API reference, "Chat Completions"; reasoning is OpenRouter's.
var requestFields = dialect.Fields{
	{Name: "model", Class: dialect.Handled},
	{Name: "stream", Class: dialect.Handled},
	{Name: "stream_options", Class: dialect.Handled},
	{Name: "messages", Class: dialect.Read},
	{Name: "temperature", Class: dialect.Read, Hint: provider.HintTemperature},
	{Name: "top_p", Class: dialect.Read, Hint: provider.HintTopP},
	{Name: "max_completion_tokens", Class: dialect.Read},
	{Name: "max_tokens", Class: dialect.Read},
	{Name: "stop", Class: dialect.Read, Hint: provider.HintStop},
	{Name: "reasoning_effort", Class: dialect.Read},
	{Name: "reasoning", Class: dialect.Read},
	{Name: "response_format", Class: dialect.Read},
	{Name: "tools", Class: dialect.Read},
	{Name: "tool_choice", Class: dialect.Read},
	{Name: "functions", Class: dialect.Read},
	{Name: "function_call", Class: dialect.Read},

	{Name: "parallel_tool_calls", Class: dialect.Hint, Hint: provider.HintOneCall, Defaults: []string{"true"}},
	{Name: "seed", Class: dialect.Hint, Hint: provider.HintSeed},
	{Name: "frequency_penalty", Class: dialect.Hint, Hint: provider.HintPenalties, Defaults: []string{"0", "0.0"}},
	{Name: "presence_penalty", Class: dialect.Hint, Hint: provider.HintPenalties, Defaults: []string{"0", "0.0"}},
	{Name: "logit_bias", Class: dialect.Hint, Defaults: []string{"{}"}},
	{Name: "prediction", Class: dialect.Hint},
	{Name: "moderation", Class: dialect.Hint},
	{Name: "verbosity", Class: dialect.Hint, Hint: provider.HintVerbosity, Defaults: []string{`"medium"`}},
	{Name: "user", Class: dialect.Hint, Hint: provider.HintEndUser},
	{Name: "safety_identifier", Class: dialect.Hint, Hint: provider.HintEndUser},
	{Name: "metadata", Class: dialect.Hint, Defaults: []string{"{}"}},
	{Name: "store", Class: dialect.Hint, Defaults: []string{"false"}},
	{Name: "prompt_cache_key", Class: dialect.Hint, Hint: provider.HintCacheKey},
	{Name: "prompt_cache_retention", Class: dialect.Hint, Defaults: []string{`"in_memory"`}},
	{Name: "prompt_cache_options", Class: dialect.Hint},

	{Name: "n", Class: dialect.Own, Defaults: []string{"1"}},
	{Name: "logprobs", Class: dialect.Own, Defaults: []string{"false"}},
	{Name: "top_logprobs", Class: dialect.Own, Defaults: []string{"0"}},
	{Name: "audio", Class: dialect.Own},
	{Name: "modalities", Class: dialect.Own, Defaults: []string{`["text"]`}},
	{Name: "web_search_options", Class: dialect.Own, Open: true, Surcharge: true},
	{
		Name: "service_tier", Class: dialect.Own, Defaults: []string{`"auto"`, `"default"`},
		Surcharge: true, Discount: `"flex"`,
	},
}

// Fields returns the fields of a request.
func (Dialect) Fields() dialect.Fields { return requestFields }
