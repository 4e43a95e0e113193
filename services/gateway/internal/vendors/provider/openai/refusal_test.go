package openai_test

import (
	"net/http"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// refusals are the rows of the error matrix: the class of each answer of OpenAI, Azure and compatible servers.
func refusals() map[string]providertest.Refusal {
	row := func(status int, class apierr.Class, code string) providertest.Refusal {
		return providertest.Refusal{Status: status, Want: provider.Error{Class: class, Code: code}}
	}
	lacks := func(r providertest.Refusal) providertest.Refusal {
		r.Want.Unsupported = true
		return r
	}
	after := func(name, value string, wait time.Duration, r providertest.Refusal) providertest.Refusal {
		r.Header, r.Want.RetryAfter = http.Header{name: {value}}, wait
		return r
	}
	waiting := func(wait time.Duration, r providertest.Refusal) providertest.Refusal {
		r.Want.RetryAfter = min(wait, wire.MaxRetryAfter)
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

		"billing_not_active":   row(429, apierr.ClassAuth, "billing_not_active"),
		"balance":              row(402, apierr.ClassAuth, "invalid_request_error"),
		"permission":           row(403, apierr.ClassAuth, "invalid_request_error"),
		"azure_key":            row(401, apierr.ClassAuth, "401"),
		"mistral_unauthorized": row(401, apierr.ClassAuth, ""),

		"rate_limit":       after("Retry-After-Ms", "120", 120*time.Millisecond, row(429, apierr.ClassRateLimit, "rate_limit_exceeded")),
		"azure_rate_limit": after("Retry-After", "6", 6*time.Second, row(429, apierr.ClassRateLimit, "429")),
		"slow_down":        row(503, apierr.ClassRateLimit, "slow_down"),
		"mistral_capacity": row(429, apierr.ClassRateLimit, "3505"),
		"gemini_list": saying("Resource has been exhausted (e.g. check quota).",
			row(429, apierr.ClassRateLimit, "")),
		"relay_503_of_429": row(503, apierr.ClassRateLimit, ""),

		// A wait that only the text contains.
		"try_again":        waiting(6*time.Minute, row(429, apierr.ClassRateLimit, "rate_limit_exceeded")), // capped
		"try_again_ms":     waiting(120*time.Millisecond, row(429, apierr.ClassRateLimit, "rate_limit_exceeded")),
		"azure_retry_text": waiting(7*time.Second, row(429, apierr.ClassRateLimit, "429")),
		"mistral_tier":     row(429, apierr.ClassRateLimit, "3505"),
		"mistral_rate":     row(429, apierr.ClassRateLimit, ""),
		// The text of an overflow in a rate limit or of a broken server does not count.
		"tokens_per_minute":     row(429, apierr.ClassRateLimit, "rate_limit_exceeded"),
		"overflow_words_in_503": row(503, apierr.ClassServerError, "server_error"),

		"html_502":        saying("the provider answered with status 502", row(502, apierr.ClassServerError, "")),
		"html_403":        saying("the provider answered with status 403", row(403, apierr.ClassAuth, "")),
		"gateway_timeout": row(504, apierr.ClassTransient, ""),
		"azure_timeout":   row(408, apierr.ClassTransient, "Timeout"),
		"server_error":    after("Retry-After", "86400", 5*time.Minute, row(500, apierr.ClassServerError, "server_error")),
		"overloaded":      row(503, apierr.ClassServerError, "server_error"),
		"timeout":         row(408, apierr.ClassTransient, "server_error"),
		"conflict":        row(409, apierr.ClassTransient, "invalid_request_error"),

		"body_too_large":        row(413, apierr.ClassPolicy, "invalid_request_error"),
		"media_type":            row(415, apierr.ClassPolicy, "invalid_request_error"),
		"unprocessable":         row(422, apierr.ClassPolicy, "invalid_request_error"),
		"azure_deployment":      row(404, apierr.ClassPolicy, "DeploymentNotFound"),
		"mistral_detail":        lacks(row(422, apierr.ClassPolicy, "")),
		"unsupported_parameter": lacks(row(400, apierr.ClassPolicy, "unsupported_parameter")),
		"model_not_found":       row(404, apierr.ClassPolicy, "model_not_found"),
		"string_too_long":       row(400, apierr.ClassPolicy, "string_above_max_length"),
		"mistral_invalid":       row(422, apierr.ClassPolicy, "invalid_request_error"),
		"fastapi_detail":        saying("Not Found", row(404, apierr.ClassPolicy, "")),
		"error_text":            saying(`model "qwen9" not found, try pulling it first`, row(404, apierr.ClassPolicy, "")),
		"long_text": saying(strings.Repeat("a  ", 166)+"a …",
			providertest.Refusal{Status: 400, Want: provider.Error{Class: apierr.ClassPolicy, Code: strings.Repeat("c", 500) + "…"}}),
		"key_at_the_cut": saying(strings.Repeat("x", 490)+"[redacted]", row(400, apierr.ClassPolicy, "invalid_request_error")),

		"context_length":     row(400, apierr.ClassContextOverflow, "context_length_exceeded"),
		"input_tokens":       row(400, apierr.ClassContextOverflow, "invalid_request_error"),
		"sglang_context":     row(400, apierr.ClassContextOverflow, "BadRequestError"),
		"vllm_input":         row(400, apierr.ClassContextOverflow, "BadRequestError"),
		"groq_context":       row(400, apierr.ClassContextOverflow, "context_length_exceeded"),
		"mistral_context":    row(400, apierr.ClassContextOverflow, "3051"),
		"perplexity_context": row(400, apierr.ClassContextOverflow, "invalid_request"),
		"llamacpp_500":       row(500, apierr.ClassContextOverflow, "server_error"),
		"request_too_large":  row(429, apierr.ClassContextOverflow, "rate_limit_exceeded"),
		"vllm_flat":          row(400, apierr.ClassContextOverflow, "BadRequestError"),
		"llamacpp_context":   row(400, apierr.ClassContextOverflow, "exceed_context_size_error"),

		"content_policy":        row(400, apierr.ClassContentPolicy, "moderation_blocked"),
		"usage_policy":          row(400, apierr.ClassContentPolicy, "invalid_prompt"),
		"image_moderation":      row(400, apierr.ClassContentPolicy, "moderation_blocked"),
		"dalle_azure":           row(400, apierr.ClassContentPolicy, "contentFilter"),
		"azure_jailbreak":       row(400, apierr.ClassContentPolicy, "content_filter"),
		"azure_content_filter":  row(400, apierr.ClassContentPolicy, "content_filter"),
		"openrouter_moderation": row(403, apierr.ClassContentPolicy, ""),

		"error_200":            saying("Upstream gave no answer to [redacted]", row(200, apierr.ClassServerError, "")),
		"choice_error_200":     saying("Provider returned error", row(200, apierr.ClassServerError, "")),
		"finish_error_200":     row(200, apierr.ClassServerError, ""),
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
		"rate_limit":     {Class: apierr.ClassRateLimit, Code: "rate_limit_exceeded"},
		"invalid":        {Class: apierr.ClassPolicy, Code: "invalid_request_error"},
		"vllm":           {Class: apierr.ClassPolicy, Code: "BadRequestError", Text: "list index out of range"},
		"vllm_context":   {Class: apierr.ClassContextOverflow, Code: "BadRequestError"},
		"openrouter":     {Class: apierr.ClassRateLimit, Text: "Rate limit exceeded"},
		"named":          {Class: apierr.ClassServerError, Text: "upstream [redacted] is away"},
		"choice":         {Class: apierr.ClassRateLimit, Text: "Rate limit exceeded"},
		"finish":         {Class: apierr.ClassServerError},
		"vllm_wrapped":   {Class: apierr.ClassServerError, Code: "InternalServerError", Text: "EngineCore encountered an issue."},
		"list":           {Class: apierr.ClassServerError, Text: "The model is overloaded."},
		"content_filter": {Class: apierr.ClassContentPolicy, Code: "content_filter"},
		"quota":          {Class: apierr.ClassAuth, Code: "insufficient_quota"},
		"error_text":     {Class: apierr.ClassServerError, Text: "upstream closed"},
		"not_json":       {Class: apierr.ClassServerError},
		"empty":          {Class: apierr.ClassTransient},
	}
}
