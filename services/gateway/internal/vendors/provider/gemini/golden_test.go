package gemini_test

import (
	"encoding/json"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

const flash = "gemini-2.5-flash"

// answers are the parsed answers of testdata/answers.
func answers() map[string]*provider.Answer {
	short := func(text string, reason provider.FinishReason, usage *provider.Usage) *provider.Answer {
		return &provider.Answer{Text: text, FinishReason: reason, Model: flash, Usage: usage}
	}
	tokens := func(input, output int64) *provider.Usage { return &provider.Usage{Input: input, Output: output} }
	const stop, filtered, calls = provider.FinishStop, provider.FinishContentFilter, provider.FinishToolCalls
	all := map[string]*provider.Answer{
		"text": {
			Text: "It is sunny in Zürich.", FinishReason: stop, Model: flash,
			Usage: &provider.Usage{Input: 13, CacheRead: 8, Output: 14, Reasoning: 30},
		},
		"parallel_tools": {
			Text: "I look.", FinishReason: calls, Model: flash, Usage: tokens(82, 48),
			ToolCalls: []provider.ToolCall{
				{Index: 0, ID: "call_r1AbC_0", Name: "get_weather", Arguments: `{"city":"Paris"}`},
				{Index: 1, ID: "call_r1AbC_1", Name: "get_time", Arguments: `{}`},
			},
		},
		"signatures": {
			Reasoning: "Hm, the <weather>.", FinishReason: calls, Model: flash, Usage: &provider.Usage{Input: 10, Output: 5, Reasoning: 7},
			ToolCalls: []provider.ToolCall{
				{
					Index: 0, ID: "fc_1", Name: "get_weather", Arguments: `{"city":"Paris","n":12345678901234567890}`,
					Extra: json.RawMessage(`{"google":{"thought_signature":"CiQBVKhc7i\u003csig\u003e+/=="}}`),
				},
				{Index: 1, ID: "fc_2", Name: "get_time", Arguments: `{}`},
			},
		},
		"no_ids": {
			FinishReason: calls, Model: flash, Usage: tokens(9, 3),
			ToolCalls: []provider.ToolCall{{Index: 0, ID: "call_r1AbC_0", Name: "get_time", Arguments: `{}`}},
		},
		"length":         short("It", provider.FinishLength, tokens(9, 1)),
		"safety_at_once": short("", filtered, tokens(9, 0)),
		"other_said":     short("It", stop, tokens(9, 1)),
		"reason_to_come": short("It", stop, tokens(9, 1)),
		"empty":          short("", stop, tokens(9, 0)),
		"finish_in_each": short("One two.", stop, tokens(9, 3)),
		"unknown_parts": {
			Text: "One.", Other: "1", FinishReason: stop, Model: flash, Usage: tokens(9, 3), Images: []string{"data:image/png;base64,aQ=="},
		},
		"citations": {
			Text: "It is so.", FinishReason: stop, Model: flash, Usage: tokens(9, 3), Citations: []provider.Citation{
				{URL: "https://a.example/1", Title: "a.example", End: 5},
				{Title: "Report", Quote: "so it is", Start: 6, End: 9},
				{URL: "https://b.example", Title: "b.example"},
				{URL: "https://c.example", Start: 1, End: 4},
			},
		},

		// 100 in the prompt: 60 text, 30 image, 10 audio. Of these 40 are cached: 20 image and 20 text. Plus 7 for the
		// results of tools.
		"usage_kinds": short("Hi.", stop, &provider.Usage{
			Input: 47, CacheRead: 40, ImageInput: 10, AudioInput: 10, Output: 2, AudioOutput: 3, Reasoning: 11,
		}),
		"usage_inclusive":    short("Hi.", stop, &provider.Usage{Input: 20, Output: 5, Reasoning: 10}),
		"usage_zero":         short("Hi.", stop, &provider.Usage{}),
		"usage_absent":       short("Hi.", stop, nil),
		"usage_beyond_total": short("Hi.", stop, &provider.Usage{CacheRead: 10, ImageOutput: 2}),
	}
	for _, name := range []string{"safety", "recitation", "language", "blocklist", "prohibited", "spii", "image_safety"} {
		all[name] = short("It", filtered, tokens(9, 1))
	}
	return all
}

// refusals are the rows of the error matrix.
func refusals() map[string]providertest.Refusal {
	row := func(status int, class apierr.Class, code string) providertest.Refusal {
		return providertest.Refusal{Status: status, Want: provider.Error{Class: class, Code: code}}
	}
	lacking := func(r providertest.Refusal) providertest.Refusal {
		r.Want.Unsupported = true
		return r
	}
	after := func(wait time.Duration, r providertest.Refusal) providertest.Refusal {
		r.Want.RetryAfter = wait
		return r
	}
	saying := func(text string, r providertest.Refusal) providertest.Refusal {
		r.Want.Text = text
		return r
	}
	header := row(429, apierr.ClassRateLimit, "RESOURCE_EXHAUSTED")
	header.Header = http.Header{"Retry-After": {"5"}}
	return map[string]providertest.Refusal{
		"invalid_key": saying("API key not valid. Please pass a valid API key. [redacted]",
			row(400, apierr.ClassAuth, "API_KEY_INVALID")),
		"expired_key":      row(400, apierr.ClassAuth, "INVALID_ARGUMENT"),
		"no_key":           row(403, apierr.ClassAuth, "PERMISSION_DENIED"),
		"unauthenticated":  row(401, apierr.ClassAuth, "ACCESS_TOKEN_TYPE_UNSUPPORTED"),
		"service_disabled": row(403, apierr.ClassAuth, "SERVICE_DISABLED"),
		"region":           row(400, apierr.ClassAuth, "FAILED_PRECONDITION"),
		"billing":          row(400, apierr.ClassAuth, "FAILED_PRECONDITION"),

		"quota":            after(37*time.Second, row(429, apierr.ClassRateLimit, "RESOURCE_EXHAUSTED")),
		"quota_day":        after(wire.MaxRetryAfter, row(429, apierr.ClassRateLimit, "RESOURCE_EXHAUSTED")),
		"quota_plain":      saying("Resource has been exhausted (e.g. check quota).", row(429, apierr.ClassRateLimit, "RESOURCE_EXHAUSTED")),
		"quota_header":     after(5*time.Second, header),
		"relay_503_of_429": row(503, apierr.ClassRateLimit, "RESOURCE_EXHAUSTED"),
		"tokens_limit":     row(429, apierr.ClassRateLimit, "RESOURCE_EXHAUSTED"),

		"internal":   row(500, apierr.ClassServerError, "INTERNAL"),
		"overloaded": saying("The model is overloaded. Please try again later.", row(503, apierr.ClassServerError, "UNAVAILABLE")),
		"deadline":   row(504, apierr.ClassTransient, "DEADLINE_EXCEEDED"),
		"cancelled":  row(499, apierr.ClassTransient, "CANCELLED"),

		"invalid":       row(400, apierr.ClassPolicy, "INVALID_ARGUMENT"),
		"no_signature":  row(400, apierr.ClassPolicy, "INVALID_ARGUMENT"),
		"unknown_field": lacking(row(400, apierr.ClassPolicy, "INVALID_ARGUMENT")),
		"not_found":     row(404, apierr.ClassPolicy, "NOT_FOUND"),
		"overflow":      row(400, apierr.ClassContextOverflow, "INVALID_ARGUMENT"),
		"payload":       row(400, apierr.ClassContextOverflow, "INVALID_ARGUMENT"),
		"payload_413":   row(413, apierr.ClassContextOverflow, ""),
		"error_200":     saying("The model is overloaded. [redacted]", row(200, apierr.ClassServerError, "UNAVAILABLE")),
	}
}

// blocked are answers with status 200 that are errors; for a stream they come as events, which streamErrors has.
func blocked() map[string]provider.Error {
	return map[string]provider.Error{
		"blocked": {
			Class: apierr.ClassContentPolicy, Status: 200, Code: "PROHIBITED_CONTENT", Text: "the provider blocked the prompt: PROHIBITED_CONTENT",
		},
		"blocked_message": {Class: apierr.ClassContentPolicy, Status: 200, Code: "MODEL_ARMOR", Text: "Blocked by Model Armor."},
		"malformed_call": {
			Class: apierr.ClassServerError, Status: 200, Code: "MALFORMED_FUNCTION_CALL", Text: "Malformed function call: print(x)",
		},
		"unexpected_call": {Class: apierr.ClassServerError, Status: 200, Code: "UNEXPECTED_TOOL_CALL", Text: "the model ended its answer with UNEXPECTED_TOOL_CALL"},
		"too_many_calls":  {Class: apierr.ClassServerError, Status: 200, Code: "TOO_MANY_TOOL_CALLS", Text: "the model ended its answer with TOO_MANY_TOOL_CALLS"},
		"other_at_once":   {Class: apierr.ClassServerError, Status: 200, Code: "OTHER", Text: "the model ended its answer with OTHER"},
	}
}

func streamErrors() map[string]provider.Error {
	return map[string]provider.Error{
		"overloaded":        {Class: apierr.ClassServerError, Code: "UNAVAILABLE", Text: "The model is overloaded. [redacted]"},
		"quota":             {Class: apierr.ClassRateLimit, Code: "RESOURCE_EXHAUSTED", RetryAfter: 12 * time.Second},
		"by_name":           {Class: apierr.ClassTransient, Code: "DEADLINE_EXCEEDED"},
		"blocked":           {Class: apierr.ClassContentPolicy, Status: 200, Code: "SAFETY"},
		"blocked_later":     {Class: apierr.ClassContentPolicy, Status: 200, Code: "OTHER"},
		"malformed_call":    {Class: apierr.ClassServerError, Status: 200, Code: "MALFORMED_FUNCTION_CALL"},
		"missing_signature": {Class: apierr.ClassPolicy, Status: 200, Code: "MISSING_THOUGHT_SIGNATURE"},
		"other_at_once":     {Class: apierr.ClassServerError, Status: 200, Code: "OTHER"},
		"not_json":          {Class: apierr.ClassServerError},
	}
}
