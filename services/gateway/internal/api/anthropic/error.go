package anthropic

import (
	"net/http"
	"strings"

	"switchyard.dev/services/platform/apierr"
)

// errorBody is the error body of the Anthropic API (docs.claude.com/en/api/errors).
type errorBody struct {
	Type      string      `json:"type"`
	Error     errorDetail `json:"error"`
	RequestID string      `json:"request_id"`
}

type errorDetail struct {
	Type    string        `json:"type"`
	Message string        `json:"message"`
	Code    apierr.Reason `json:"code"`
	apierr.Detail
}

// ErrorBody returns the body of an error as clients of the Anthropic API expect it.
func ErrorBody(e *apierr.Error, requestID string) any {
	message := e.Text
	// Clients of that API recognize this case by its text alone, and compact the conversation.
	if e.ErrorClass() == apierr.ClassContextOverflow && !strings.Contains(strings.ToLower(message), "prompt is too long") {
		message = "prompt is too long: " + message
	}
	detail := errorDetail{errorType(e.Kind.HTTPStatus()), message, e.Reason, apierr.NewDetail(e, requestID)}
	return errorBody{"error", detail, requestID}
}

func errorType(status int) string {
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
