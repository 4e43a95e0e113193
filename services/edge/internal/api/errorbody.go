package api

import (
	"net/http"

	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apierr"
)

// dialectBody returns the renderer of errors of the edge itself in a dialect of the route table; the gateway renders its
// own. An unknown dialect is Switchyard's own form.
func dialectBody(dialect string) func(*apierr.Error, string) any {
	switch dialect {
	case route.DialectOpenAI, route.DialectAzure:
		return func(e *apierr.Error, requestID string) any { return newOpenAI(e, requestID) }
	case route.DialectAnthropic:
		return newAnthropic
	case route.DialectGemini:
		return newGemini
	}
	return apierr.NewDocument
}

// openAI is the error body of the OpenAI API (platform.openai.com/docs/guides/error-codes).
type openAI struct {
	Error openAIDetail `json:"error"`
}

type openAIDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	// Reason is Switchyard's code if a plan or the credits are used up; Code is then the API's.
	Reason apierr.Reason `json:"reason,omitempty"`
	apierr.Detail
}

// openAINoQuota is the type and code of the OpenAI API's error for a used-up account, which its clients don't retry.
const openAINoQuota = "insufficient_quota"

// usedUp reports whether an error refuses calls because a plan or the credits are used up.
func usedUp(e *apierr.Error) bool {
	return e.Reason == quota.ReasonExceeded || e.Reason == quota.ReasonCreditsExhausted
}

func newOpenAI(e *apierr.Error, requestID string) openAI {
	body := openAIDetail{
		Message: e.Text, Type: openAIType(e.Kind.HTTPStatus()), Code: openAICode(e), Detail: apierr.NewDetail(e, requestID),
	}
	if field := e.Field(); field != "" {
		body.Param = &field
	}
	if usedUp(e) {
		body.Type, body.Code, body.Reason = openAINoQuota, openAINoQuota, e.Reason
	}
	return openAI{body}
}

func openAIType(status int) string {
	switch {
	case status == http.StatusTooManyRequests:
		return "rate_limit_error"
	case status == http.StatusUnauthorized:
		return "authentication_error"
	case status == http.StatusForbidden:
		return "permission_error"
	case status >= http.StatusInternalServerError:
		return "server_error"
	}
	return "invalid_request_error"
}

// openAICode returns the reason, except for the codes that clients of that API act on.
func openAICode(e *apierr.Error) string {
	switch e.Kind {
	case apierr.KindUnauthenticated:
		return "invalid_api_key"
	case apierr.KindRateLimited:
		return "rate_limit_exceeded"
	default:
		return string(e.Reason)
	}
}

// anthropic is the error body of the Anthropic API (docs.claude.com/en/api/errors).
type anthropic struct {
	Type      string          `json:"type"`
	Error     anthropicDetail `json:"error"`
	RequestID string          `json:"request_id"`
}

type anthropicDetail struct {
	Type    string        `json:"type"`
	Message string        `json:"message"`
	Code    apierr.Reason `json:"code"`
	apierr.Detail
}

func newAnthropic(e *apierr.Error, requestID string) any {
	detail := anthropicDetail{anthropicType(e.Kind.HTTPStatus()), e.Text, e.Reason, apierr.NewDetail(e, requestID)}
	if usedUp(e) {
		detail.Type = "billing_error"
	}
	return anthropic{"error", detail, requestID}
}

func anthropicType(status int) string {
	switch status {
	case http.StatusUnauthorized:
		return "authentication_error"
	case http.StatusForbidden:
		return "permission_error"
	case http.StatusNotFound:
		return "not_found_error"
	case http.StatusRequestEntityTooLarge:
		return "request_too_large"
	case http.StatusTooManyRequests:
		return "rate_limit_error"
	case http.StatusServiceUnavailable:
		return "overloaded_error"
	case http.StatusGatewayTimeout:
		return "timeout_error"
	}
	if status >= http.StatusInternalServerError {
		return "api_error"
	}
	return "invalid_request_error"
}
