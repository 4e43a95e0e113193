package anthropic_test

import (
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// answers are the parsed answers of testdata/answers.
func answers() map[string]*provider.Answer {
	const claude = "claude-sonnet-4-5-20250929"
	short := func(text string, reason provider.FinishReason, input, output int64) *provider.Answer {
		return &provider.Answer{
			Text: text, FinishReason: reason, Model: claude,
			Usage: &provider.Usage{Input: input, Output: output},
		}
	}
	return map[string]*provider.Answer{
		"text": {
			Text: "It is sunny in Zürich.", FinishReason: provider.FinishStop, Model: claude,
			Usage: &provider.Usage{Input: 21, CacheWrite: 188, CacheRead: 2048, Output: 14},
		},
		"parallel_tools": {
			Text: "I look.", FinishReason: provider.FinishToolCalls, Model: claude,
			ToolCalls: []provider.ToolCall{
				{Index: 0, ID: "toolu_01T1x1fJ34qAmk2tNTrN7Up6", Name: "get_weather", Arguments: `{"city": "Paris"}`},
				{Index: 1, ID: "toolu_01A09q90qw90lq917835lq9", Name: "get_time", Arguments: `{}`},
			},
			Usage: &provider.Usage{Input: 472, Output: 89},
		},
		"citations": {
			Text: "Grün is so. Yes.", FinishReason: provider.FinishStop, Model: claude, Usage: &provider.Usage{Input: 30, Output: 60},
			Citations: []provider.Citation{
				{URL: "https://a.example/1", Title: "A", Quote: "so it is", Start: 5, End: 11},
				{Title: "Report", Quote: "so", Start: 5, End: 11},
				{URL: "https://b.example", Title: "B", Quote: "yes", Start: 11, End: 16},
			},
		},
		"thinking": {
			Text: "Four. Yes.", Reasoning: "Hm.", FinishReason: provider.FinishStop, Model: claude,
			Usage: &provider.Usage{Input: 30, Output: 60},
		},
		"thinking_tools": {
			Text: "I look.", Reasoning: "I need the <weather> & \"time\".\nNow the time.", FinishReason: provider.FinishToolCalls, Model: claude,
			ToolCalls: []provider.ToolCall{
				{
					Index: 0, ID: "toolu_1", Name: "get_weather", Arguments: `{"city":"Paris"}`,
					Extra: json.RawMessage(`{"anthropic":{"lead":[` +
						`{"type":"thinking","thinking":"I need the \u003cweather\u003e \u0026 \"time\".\n","signature":"EqQBCgIYAhIMabc/+=="},` +
						`{"type":"redacted_thinking","data":"EmwKAhgB"}]}}`),
				},
				{
					Index: 1, ID: "toolu_2", Name: "get_time", Arguments: `{}`,
					Extra: json.RawMessage(`{"anthropic":{"before":[{"type":"thinking","thinking":"Now the time.","signature":"ErIBCgIYBBIM"}]}}`),
				},
			},
			Usage: &provider.Usage{Input: 30, Output: 49, Reasoning: 41},
		},
		"server_tool": beside(`{"query":"x"}`, short("Found.", provider.FinishLength, 30, 6)), // It is paused: there is more to come.
		"unknown": {
			Text: "It", FinishReason: provider.FinishToolCalls, Model: claude, Usage: &provider.Usage{Input: 9, Output: 5},
			ToolCalls: []provider.ToolCall{{Index: 0, ID: "t1", Name: "get_weather", Arguments: `{"city":"Paris","n":12345678901234567890}`}},
		},
		"usage_cache_split": {
			Text: "It", FinishReason: provider.FinishStop, Model: claude,
			Usage: &provider.Usage{Input: 9, CacheRead: 7, CacheWrite: 100, CacheWriteLong: 400, Output: 2},
		},
		"length":         short("It", provider.FinishLength, 9, 1),
		"context_window": short("It", provider.FinishLength, 9, 1),
		"refusal":        short("It", provider.FinishContentFilter, 9, 1),
		"stop_sequence":  short("It", provider.FinishStop, 9, 1),
		"empty":          short("", provider.FinishStop, 9, 3),
		"usage_cumulative": {
			Text: "It", FinishReason: provider.FinishStop, Model: claude,
			Usage: &provider.Usage{Input: 40, CacheWrite: 3, CacheRead: 5, Output: 7},
		},
		"usage_zero":   {Text: "It", FinishReason: provider.FinishStop, Model: "local", Usage: &provider.Usage{}},
		"usage_absent": {Text: "It", FinishReason: provider.FinishStop, Model: "local"},
	}
}

// beside returns an answer in which the model wrote something that is not shown.
func beside(other string, answer *provider.Answer) *provider.Answer {
	answer.Other = other
	return answer
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
	after := func(value string, wait time.Duration, r providertest.Refusal) providertest.Refusal {
		r.Header, r.Want.RetryAfter = http.Header{"Retry-After": {value}}, wait
		return r
	}
	saying := func(text string, r providertest.Refusal) providertest.Refusal {
		r.Want.Text = text
		return r
	}
	withRetry := func(retry bool, r providertest.Refusal) providertest.Refusal {
		r.Header, r.Want.ShouldRetry = http.Header{"X-Should-Retry": {strconv.FormatBool(retry)}}, &retry
		return r
	}
	limited := func(r providertest.Refusal) providertest.Refusal {
		r.Header = http.Header{
			"Anthropic-Ratelimit-Input-Tokens-Remaining": {"0"}, "Anthropic-Ratelimit-Input-Tokens-Reset": {"9999-12-31T23:59:59Z"},
			"Anthropic-Ratelimit-Requests-Remaining": {"49"}, "Anthropic-Ratelimit-Requests-Reset": {"2000-01-01T00:00:00Z"},
		}
		r.Want.RetryAfter = wire.MaxRetryAfter
		r.Want.Limits = provider.Limits{
			Requests: provider.Allowance{Known: true, Remaining: 49},
			Tokens:   provider.Allowance{Known: true, Reset: wire.MaxRetryAfter},
		}
		return r
	}
	return map[string]providertest.Refusal{
		"invalid_key":     saying("invalid x-api-key: [redacted]", row(401, apierr.ClassAuth, "authentication_error")),
		"permission":      row(403, apierr.ClassAuth, "permission_error"),
		"billing":         row(402, apierr.ClassAuth, "billing_error"),
		"credit":          row(400, apierr.ClassAuth, "invalid_request_error"),
		"workspace_limit": row(400, apierr.ClassAuth, "invalid_request_error"),
		"spend_limit":     row(429, apierr.ClassAuth, "rate_limit_error"),

		"rate_limit": after("17", 17*time.Second, row(429, apierr.ClassRateLimit, "rate_limit_error")),
		// No wait is named, so that the reset of the used-up limit applies.
		"acceleration":     limited(row(429, apierr.ClassRateLimit, "rate_limit_error")),
		"overloaded":       row(529, apierr.ClassServerError, "overloaded_error"),
		"api_error":        row(500, apierr.ClassServerError, "api_error"),
		"timeout":          row(504, apierr.ClassTransient, "timeout_error"),
		"conflict":         row(409, apierr.ClassTransient, "invalid_request_error"),
		"should_not_retry": withRetry(false, row(500, apierr.ClassServerError, "api_error")),

		"invalid_request":    saying("messages: at least one message is required", row(400, apierr.ClassPolicy, "invalid_request_error")),
		"max_tokens_field":   lacking(row(400, apierr.ClassPolicy, "invalid_request_error")),
		"image_too_large":    row(400, apierr.ClassPolicy, "invalid_request_error"),
		"unknown_type":       row(400, apierr.ClassPolicy, "a_type_to_come"),
		"rate_limit_of_long": row(429, apierr.ClassRateLimit, "rate_limit_error"),
		"not_found":          row(404, apierr.ClassPolicy, "not_found_error"),
		"too_large":          row(413, apierr.ClassPolicy, "request_too_large"),
		"prompt_too_long":    row(400, apierr.ClassContextOverflow, "invalid_request_error"),
		"prompt_length":      row(400, apierr.ClassContextOverflow, "invalid_request_error"),
		"context_limit":      row(400, apierr.ClassContextOverflow, "invalid_request_error"),
		"content_filter":     row(400, apierr.ClassContentPolicy, "invalid_request_error"),

		"error_200":   saying("Overloaded [redacted]", row(200, apierr.ClassServerError, "overloaded_error")),
		"invalid_200": row(200, apierr.ClassPolicy, "invalid_request_error"),
	}
}

func streamErrors() map[string]provider.Error {
	return map[string]provider.Error{
		"overloaded":         {Class: apierr.ClassServerError, Code: "overloaded_error", Text: "Overloaded [redacted]"},
		"overloaded_at_once": {Class: apierr.ClassServerError, Code: "overloaded_error", Text: "Overloaded"},
		"api_error":          {Class: apierr.ClassServerError, Code: "api_error"},
		"rate_limit":         {Class: apierr.ClassRateLimit, Code: "rate_limit_error"},
		"timeout":            {Class: apierr.ClassTransient, Code: "timeout_error"},
		"content_filter":     {Class: apierr.ClassContentPolicy, Code: "invalid_request_error"},
		"invalid":            {Class: apierr.ClassPolicy, Code: "invalid_request_error"},
		"not_json":           {Class: apierr.ClassServerError},
	}
}
