package bedrock_test

import (
	"encoding/json"
	"net/http"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// answers are the parsed answers of testdata/answers.
func answers() map[string]*provider.Answer {
	short := func(text string, reason provider.FinishReason, input, output int64) *provider.Answer {
		return &provider.Answer{Text: text, FinishReason: reason, Usage: &provider.Usage{Input: input, Output: output}}
	}
	thought := short("Yes.", provider.FinishStop, 9, 40)
	thought.Reasoning = "Easy."
	served := short("Found.", provider.FinishStop, 13, 14)
	served.Other = `{"q":"x"}`
	unreported := short("Hi.", provider.FinishStop, 0, 0)
	unreported.Usage = nil
	cited := short("It was 1932. So it was.", provider.FinishStop, 11, 12)
	cited.Citations = []provider.Citation{{Title: "a", End: 12}}
	pictured := short("Done.", provider.FinishStop, 3, 1)
	pictured.Images = []string{"data:image/png;base64,aaaa"}
	split := short("Hi.", provider.FinishStop, 7, 8)
	split.Usage.CacheWriteLong = 10
	return map[string]*provider.Answer{
		"text": {
			Text: "It is sunny in Zürich.", FinishReason: provider.FinishStop,
			Usage: &provider.Usage{Input: 21, CacheRead: 2048, CacheWrite: 88, CacheWriteLong: 100, Output: 14},
		},
		"parallel_tools": {
			Text: "I look.", FinishReason: provider.FinishToolCalls, Usage: &provider.Usage{Input: 472, Output: 89},
			ToolCalls: []provider.ToolCall{
				{Index: 0, ID: "tooluse_kZJMlvQmRJ6eAyJE5GIl7Q", Name: "get_weather", Arguments: `{"city":"Paris"}`},
				{Index: 1, ID: "tooluse_A09q90qw90lq917835lq9A", Name: "get_time", Arguments: `{}`},
			},
		},
		"thinking_tools": {
			Text: "I look.", Reasoning: "Two calls.And the time.", FinishReason: provider.FinishToolCalls,
			ToolCalls: []provider.ToolCall{
				{
					Index: 0, ID: "tooluse_1", Name: "get_weather", Arguments: `{"city":"Paris"}`,
					Extra: json.RawMessage(`{"anthropic":{"lead":[{"type":"thinking","thinking":"Two calls.","signature":"c2lnMQ=="},` +
						`{"type":"redacted_thinking","data":"cmVkYWN0ZWQ="}]}}`),
				},
				{
					Index: 1, ID: "tooluse_2", Name: "get_time", Arguments: `{}`,
					Extra: json.RawMessage(`{"anthropic":{"before":[{"type":"thinking","thinking":"And the time.","signature":"c2lnMg=="}]}}`),
				},
			},
			Usage: &provider.Usage{Input: 30, Output: 200},
		},
		"thinking": thought, "server_tool": served, "usage_absent": unreported, "usage_split_beyond": split,
		"usage_zero":     short("Hi.", provider.FinishStop, 0, 0),
		"length":         short("A part", provider.FinishLength, 5, 2),
		"context_window": short("A part", provider.FinishLength, 5, 2),
		"stop_sequence":  short("A part", provider.FinishStop, 5, 2),
		"unknown_stop":   short("A part", provider.FinishStop, 5, 2),
		"guardrail":      short("A part", provider.FinishContentFilter, 5, 2),
		"filtered":       short("A part", provider.FinishContentFilter, 5, 2),
		"citations":      cited,
		"unknown":        pictured,
		"empty":          short("", provider.FinishStop, 4, 0),
	}
}

// named returns a refusal whose exception is named in the header as the vendor does it.
func named(status int, class apierr.Class, exception string) providertest.Refusal {
	return providertest.Refusal{
		Status: status, Header: http.Header{"X-Amzn-Errortype": {exception + ":http://internal.amazon.com/coral/com.amazon.bedrock/"}},
		Want: provider.Error{Class: class, Code: exception},
	}
}

func saying(text string, r providertest.Refusal) providertest.Refusal {
	r.Want.Text = text
	return r
}

func refusals() map[string]providertest.Refusal {
	later := named(429, apierr.ClassRateLimit, "ThrottlingException")
	later.Header.Set("X-Amz-Retry-After", "2500")
	later.Want.RetryAfter = 2500 * time.Millisecond
	perDay := named(429, apierr.ClassRateLimit, "ThrottlingException")
	perDay.Want.RetryAfter = wire.MaxRetryAfter
	spaced := named(403, apierr.ClassAuth, "AccessDeniedException")
	spaced.Header.Set("X-Amzn-Errortype", "com.amazon.bedrock#AccessDeniedException")
	inBody := named(429, apierr.ClassRateLimit, "ThrottlingException")
	inBody.Header = nil
	unknown := named(400, apierr.ClassPolicy, "AnExceptionToCome")
	return map[string]providertest.Refusal{
		"throttling":        saying("Too many requests, please wait before trying again. [redacted]", named(429, apierr.ClassRateLimit, "ThrottlingException")),
		"throttling_tokens": named(429, apierr.ClassRateLimit, "ThrottlingException"), "throttling_per_day": perDay, "retry_after": later,
		"quota":     named(400, apierr.ClassRateLimit, "ServiceQuotaExceededException"),
		"not_ready": named(429, apierr.ClassTransient, "ModelNotReadyException"), "timeout": named(408, apierr.ClassTransient, "ModelTimeoutException"),
		"model_error":     named(424, apierr.ClassTransient, "ModelErrorException"),
		"model_error_429": named(424, apierr.ClassRateLimit, "ModelErrorException"), "model_error_400": named(424, apierr.ClassPolicy, "ModelErrorException"),
		"internal": named(500, apierr.ClassServerError, "InternalServerException"), "unavailable": named(503, apierr.ClassServerError, "ServiceUnavailableException"),
		"conflict":      named(400, apierr.ClassTransient, "ConflictException"),
		"access_denied": spaced, "no_access": named(403, apierr.ClassAuth, "AccessDeniedException"),
		"expired": named(403, apierr.ClassAuth, "ExpiredTokenException"), "bearer": named(403, apierr.ClassAuth, "AccessDeniedException"),
		"signature": named(403, apierr.ClassAuth, "InvalidSignatureException"),
		"not_found": named(404, apierr.ClassPolicy, "ResourceNotFoundException"),
		"validation": saying("Malformed input request: #/messages/0: required key [content] not found, please reformat your input and try again.",
			named(400, apierr.ClassPolicy, "ValidationException")),
		"on_demand": saying("set upstream of the model in the policy to the ID or ARN of an inference profile, such as eu. before the model's own ID: "+
			"Invocation of model ID anthropic.claude-sonnet-4-5-20250929-v1:0 with on-demand throughput isn’t supported. "+
			"Retry your request with the ID or ARN of an inference profile that contains this model.", named(400, apierr.ClassPolicy, "ValidationException")),
		"too_long":        named(400, apierr.ClassContextOverflow, "ValidationException"),
		"too_long_claude": named(400, apierr.ClassContextOverflow, "ValidationException"),
		"too_long_bytes":  named(400, apierr.ClassContextOverflow, "ValidationException"),
		"content_filter":  named(400, apierr.ClassContentPolicy, "ValidationException"),
		"in_body":         inBody, "unknown_type": unknown,
	}
}

func streamErrors() map[string]provider.Error {
	return map[string]provider.Error{
		"throttling":            {Class: apierr.ClassRateLimit, Code: "throttlingException", Text: "Too many tokens, please wait before trying again. [redacted]"},
		"throttling_at_once":    {Class: apierr.ClassRateLimit, Code: "throttlingException"},
		"throttling_per_day":    {Class: apierr.ClassRateLimit, Code: "throttlingException", RetryAfter: wire.MaxRetryAfter},
		"internal":              {Class: apierr.ClassServerError, Code: "internalServerException"},
		"unavailable":           {Class: apierr.ClassServerError, Code: "serviceUnavailableException"},
		"model_stream":          {Class: apierr.ClassTransient, Code: "modelStreamErrorException"},
		"model_stream_original": {Class: apierr.ClassServerError, Code: "modelStreamErrorException"},
		"model_timeout":         {Class: apierr.ClassTransient, Code: "modelTimeoutException"},
		"validation":            {Class: apierr.ClassPolicy, Code: "validationException"},
		"too_long":              {Class: apierr.ClassContextOverflow, Code: "validationException"},
		"exception_not_json":    {Class: apierr.ClassServerError, Code: "internalServerException", Text: "the provider reported an error"},
		"an_error":              {Class: apierr.ClassServerError, Code: "InternalFailure", Text: "An error [redacted] occurred"},
		"malformed_output":      {Class: apierr.ClassServerError, Code: "malformed_model_output"},
		"malformed_tool_use":    {Class: apierr.ClassServerError, Code: "malformed_tool_use"},
		"not_json":              {Class: apierr.ClassServerError},
	}
}
