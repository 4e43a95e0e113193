package openai_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/providertest"
	"switchyard.dev/services/platform/apierr"
)

// answers are what testdata/answers says, in our words.
func answers() map[string]*provider.Answer {
	const openAI = "gpt-4o-mini-2024-07-18"
	paris := provider.ToolCall{Index: 0, ID: "call_DdmO9pD3xa9XTPNJ32zg2hcA", Name: "get_weather", Arguments: `{"city": "Paris"}`}
	clock := provider.ToolCall{Index: 1, ID: "call_ABxCbKlOKr6zMPbPLvMM7bRT", Name: "get_time", Arguments: `{}`}
	compatible := []provider.ToolCall{
		{Index: 0, ID: "D681PevKs", Name: "get_weather", Arguments: `{"city": "Paris"}`},
		{Index: 1, ID: "9fK2mPq4s", Name: "get_time", Arguments: `{}`},
	}
	gemini := []provider.ToolCall{
		{Index: 0, ID: "function-call-1", Name: "get_weather", Arguments: `{"city":"Paris"}`},
		{Index: 1, ID: "function-call-2", Name: "get_weather", Arguments: `{"city":"Rome"}`},
	}
	gemini[0].Extra = json.RawMessage(`{"google":{"thought_signature":"c2ln"}}`)
	const stop, calls = provider.FinishStop, provider.FinishToolCalls
	return map[string]*provider.Answer{
		"text": {
			Text: "It is sunny in Zürich.", FinishReason: stop, Model: openAI,
			Usage: &provider.Usage{Input: 476, CacheRead: 1024, Output: 26, Reasoning: 64},
		},
		"parallel_tools": {
			ToolCalls: []provider.ToolCall{paris, clock}, FinishReason: calls, Model: openAI,
			Usage: &provider.Usage{Input: 82, Output: 48},
		},
		"interleaved_tools": {
			Text: "I look.", ToolCalls: []provider.ToolCall{paris, clock}, FinishReason: calls, Model: openAI,
			Usage: &provider.Usage{Input: 82, Output: 48},
		},
		"length":         {Text: "It is", FinishReason: provider.FinishLength, Model: openAI, Usage: &provider.Usage{Input: 20, Output: 2}},
		"refusal":        {Text: "I can't help with that.", FinishReason: stop, Model: openAI, Usage: &provider.Usage{Input: 20, Output: 8}},
		"azure_filtered": {Text: "It", FinishReason: provider.FinishContentFilter, Model: openAI, Usage: &provider.Usage{Input: 20, Output: 1}},

		"usage_absent":       {Text: "Hi.", FinishReason: stop, Model: "qwen3"},
		"usage_zero":         {Text: "Hi.", FinishReason: stop, Model: "qwen3", Usage: &provider.Usage{}},
		"usage_beyond_total": {Text: "Hi.", FinishReason: stop, Model: "qwen3", Usage: &provider.Usage{CacheRead: 10, Reasoning: 2}},
		"usage_cache_write":  {Text: "Hi.", FinishReason: stop, Model: "m", Usage: &provider.Usage{Input: 50, CacheRead: 20, CacheWrite: 30, Output: 2}},
		"usage_running":      {Text: "One two.", FinishReason: stop, Model: "m", Usage: &provider.Usage{Input: 9, Output: 3}},

		"tools_index_repeated": {ToolCalls: gemini, FinishReason: calls, Model: "gemini-2.5-flash"},
		"tools_without_index":  {ToolCalls: compatible, FinishReason: calls, Model: "mistral-large"},
		"tools_id_repeated":    {ToolCalls: compatible, FinishReason: calls, Model: "m"},
		"content_parts":        {Text: "It is 4.", FinishReason: stop, Model: "magistral-medium"},
	}
}

// refusals are the rows of the error matrix: the class that each answer of
// OpenAI, Azure and compatible servers stands for.
func refusals() map[string]providertest.Refusal {
	row := func(status int, class apierr.Class, code string) providertest.Refusal {
		return providertest.Refusal{Status: status, Want: provider.Error{Class: class, Code: code}}
	}
	after := func(name, value string, wait time.Duration, r providertest.Refusal) providertest.Refusal {
		r.Header, r.Want.RetryAfter = http.Header{name: {value}}, wait
		return r
	}
	saying := func(text string, r providertest.Refusal) providertest.Refusal {
		r.Want.Text = text
		return r
	}
	return map[string]providertest.Refusal{
		"invalid_key": saying("Incorrect API key provided: [redacted]. You can find your API key at https://platform.openai.com/account/api-keys.",
			row(401, apierr.ClassAuth, "invalid_api_key")),
		"country":            row(403, apierr.ClassAuth, "unsupported_country_region_territory"),
		"insufficient_quota": row(429, apierr.ClassAuth, "insufficient_quota"),
		"hard_limit":         row(429, apierr.ClassAuth, "billing_hard_limit_reached"),

		"rate_limit":       after("Retry-After-Ms", "120", 120*time.Millisecond, row(429, apierr.ClassRateLimit, "rate_limit_exceeded")),
		"azure_rate_limit": after("Retry-After", "6", 6*time.Second, row(429, apierr.ClassRateLimit, "429")),
		"slow_down":        row(503, apierr.ClassRateLimit, "slow_down"),
		"mistral_capacity": row(429, apierr.ClassRateLimit, "3505"),
		"gemini_list": saying("Resource has been exhausted (e.g. check quota).",
			row(429, apierr.ClassRateLimit, "")),
		"relay_503_of_429": row(503, apierr.ClassRateLimit, ""),

		"server_error": after("Retry-After", "86400", 5*time.Minute, row(500, apierr.ClassServerError, "server_error")),
		"overloaded":   row(503, apierr.ClassServerError, "server_error"),
		"timeout":      row(408, apierr.ClassTransient, "server_error"),
		"conflict":     row(409, apierr.ClassTransient, "invalid_request_error"),

		"unsupported_parameter": row(400, apierr.ClassPolicy, "unsupported_parameter"),
		"model_not_found":       row(404, apierr.ClassPolicy, "model_not_found"),
		"string_too_long":       row(400, apierr.ClassPolicy, "string_above_max_length"),
		"mistral_invalid":       row(422, apierr.ClassPolicy, "invalid_request_error"),
		"fastapi_detail":        saying("Not Found", row(404, apierr.ClassPolicy, "")),
		"error_text":            saying(`model "qwen9" not found, try pulling it first`, row(404, apierr.ClassPolicy, "")),
		"long_text": saying(strings.Repeat("a  ", 166)+"a …",
			providertest.Refusal{Status: 400, Want: provider.Error{Class: apierr.ClassPolicy, Code: strings.Repeat("c", 500) + "…"}}),
		"key_at_the_cut": saying(strings.Repeat("x", 490)+"[redacted]", row(400, apierr.ClassPolicy, "invalid_request_error")),

		"context_length":    row(400, apierr.ClassContextOverflow, "context_length_exceeded"),
		"input_tokens":      row(400, apierr.ClassContextOverflow, "invalid_request_error"),
		"request_too_large": row(429, apierr.ClassContextOverflow, "rate_limit_exceeded"),
		"vllm_flat":         row(400, apierr.ClassContextOverflow, "BadRequestError"),
		"llamacpp_context":  row(400, apierr.ClassContextOverflow, "exceed_context_size_error"),

		"content_policy":        row(400, apierr.ClassContentPolicy, "moderation_blocked"),
		"usage_policy":          row(400, apierr.ClassContentPolicy, "invalid_prompt"),
		"azure_content_filter":  row(400, apierr.ClassContentPolicy, "content_filter"),
		"openrouter_moderation": row(403, apierr.ClassContentPolicy, ""),

		"error_200":            saying("Upstream gave no answer to [redacted]", row(200, apierr.ClassServerError, "")),
		"error_200_rate_limit": row(200, apierr.ClassRateLimit, ""),
		"vllm_flat_200":        saying("Internal Server Error", row(200, apierr.ClassServerError, "InternalServerError")),
	}
}

func streamErrors() map[string]provider.Error {
	return map[string]provider.Error{
		"server_error": {
			Class: apierr.ClassServerError, Code: "server_error",
			Text: "The server had an error processing your request [redacted]",
		},
		"rate_limit":   {Class: apierr.ClassRateLimit, Code: "rate_limit_exceeded"},
		"invalid":      {Class: apierr.ClassPolicy, Code: "invalid_request_error"},
		"vllm":         {Class: apierr.ClassPolicy, Code: "BadRequestError", Text: "list index out of range"},
		"vllm_context": {Class: apierr.ClassContextOverflow, Code: "BadRequestError"},
		"openrouter":   {Class: apierr.ClassRateLimit, Text: "Rate limit exceeded"},
		"error_text":   {Class: apierr.ClassServerError, Text: "upstream closed"},
		"not_json":     {Class: apierr.ClassServerError},
		"empty":        {Class: apierr.ClassTransient},
	}
}
