package apierr

import (
	"net/http"
	"regexp"
	"strings"
)

// Names of the APIs whose SDKs may call us in their own words.
const (
	DialectOpenAI    = "openai"
	DialectAnthropic = "anthropic"
)

// Body gives the renderer of error bodies in a dialect; it is fallback for one
// that isn't known.
func Body(dialect string, fallback func(*Error, string) any) func(*Error, string) any {
	switch dialect {
	case DialectOpenAI:
		return newOpenAI
	case DialectAnthropic:
		return newAnthropic
	}
	return fallback
}

// detail is what our own error body says, beside what an SDK looks for.
type detail struct {
	ErrorClass Class  `json:"error_class"`
	Retryable  bool   `json:"retryable"`
	RetryAfter int    `json:"retry_after,omitempty"`
	RequestID  string `json:"request_id"`
}

func newDetail(e *Error, requestID string) detail {
	class := e.ErrorClass()
	return detail{class, class.Retryable(), e.RetryAfterSeconds(), requestID}
}

// openAI is the error body of the OpenAI API (platform.openai.com/docs/guides/error-codes).
type openAI struct {
	Error openAIError `json:"error"`
}

type openAIError struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	detail
}

func newOpenAI(e *Error, requestID string) any {
	return openAI{openAIError{
		Message: e.Text, Type: openAIType(e.Kind.HTTPStatus()), Param: param(e), Code: openAICode(e), detail: newDetail(e, requestID),
	}}
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

// openAICode is the reason, but for what clients of that API look for: they cut
// the conversation, reword or stop by these codes.
func openAICode(e *Error) string {
	switch class := e.ErrorClass(); {
	case class == ClassContextOverflow:
		return "context_length_exceeded"
	case class == ClassContentPolicy:
		return "content_policy_violation"
	case e.Kind == KindUnauthenticated:
		return "invalid_api_key"
	case e.Kind == KindRateLimited:
		return "rate_limit_exceeded"
	}
	return string(e.Reason)
}

// fieldFirst finds the field that a text of Invalid begins with.
var fieldFirst = regexp.MustCompile(`^([a-z][a-z0-9_]*(?:[.\[][a-z0-9_.\[\]]*)?): `)

// param returns the field that is at fault; nil when none is named. An error with a
// cause is another party's refusal, whose text begins with a name too.
func param(e *Error) *string {
	found := fieldFirst.FindStringSubmatch(e.Text)
	if e.Kind != KindInvalid || e.Cause != nil || found == nil {
		return nil
	}
	return &found[1]
}

// anthropic is the error body of the Anthropic API (docs.claude.com/en/api/errors).
type anthropic struct {
	Type      string         `json:"type"`
	Error     anthropicError `json:"error"`
	RequestID string         `json:"request_id"`
}

type anthropicError struct {
	Type    string `json:"type"`
	Message string `json:"message"`
	Code    Reason `json:"code"`
	detail
}

func newAnthropic(e *Error, requestID string) any {
	message := e.Text
	// Clients of that API know this case by its text alone, and compact.
	if e.ErrorClass() == ClassContextOverflow && !strings.Contains(strings.ToLower(message), "prompt is too long") {
		message = "prompt is too long: " + message
	}
	return anthropic{"error", anthropicError{anthropicType(e.Kind.HTTPStatus()), message, e.Reason, newDetail(e, requestID)}, requestID}
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
