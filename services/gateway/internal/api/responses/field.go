package responses

import (
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// requestFields are those of a request. Source: OpenAI API reference, "Responses". Of conversation the face says what to use
// instead.
var requestFields = dialect.Fields{
	{Name: "model", Class: dialect.Handled},
	{Name: "stream", Class: dialect.Handled},
	{Name: "stream_options", Class: dialect.Handled},
	{Name: "store", Class: dialect.Handled},
	{Name: "background", Class: dialect.Handled},
	{Name: "previous_response_id", Class: dialect.Handled},
	{Name: "include", Class: dialect.Handled},
	{Name: "input", Class: dialect.Read},
	{Name: "instructions", Class: dialect.Read},
	{Name: "temperature", Class: dialect.Read, Hint: provider.HintTemperature},
	{Name: "top_p", Class: dialect.Read, Hint: provider.HintTopP},
	{Name: "max_output_tokens", Class: dialect.Read},
	{Name: "reasoning", Class: dialect.Read},
	{Name: "text", Class: dialect.Read},
	{Name: "tools", Class: dialect.Read},
	{Name: "tool_choice", Class: dialect.Read},

	{Name: "parallel_tool_calls", Class: dialect.Hint, Hint: provider.HintOneCall, Defaults: []string{"true"}},
	{Name: "user", Class: dialect.Hint, Hint: provider.HintEndUser},
	{Name: "safety_identifier", Class: dialect.Hint, Hint: provider.HintEndUser},
	{Name: "metadata", Class: dialect.Hint, Defaults: []string{"{}"}},
	{Name: "client_metadata", Class: dialect.Hint, Defaults: []string{"{}"}},
	{Name: "prompt_cache_key", Class: dialect.Hint, Hint: provider.HintCacheKey},
	{Name: "prompt_cache_retention", Class: dialect.Hint, Defaults: []string{`"in_memory"`}},
	{Name: "prompt_cache_options", Class: dialect.Hint},
	{Name: "max_tool_calls", Class: dialect.Hint},
	{Name: "truncation", Class: dialect.Hint, Defaults: []string{`"disabled"`}},
	{Name: "context_management", Class: dialect.Hint, Defaults: []string{"[]"}},
	{Name: "moderation", Class: dialect.Hint},

	{Name: "prompt", Class: dialect.Own, Open: true},
	{Name: "top_logprobs", Class: dialect.Own, Defaults: []string{"0"}},
	{Name: "service_tier", Class: dialect.Own, Defaults: []string{`"auto"`, `"default"`}, Surcharge: true},
	{Name: "access_programs", Class: dialect.Own},
}

// Fields returns the fields of a request.
func (Dialect) Fields() dialect.Fields { return requestFields }
