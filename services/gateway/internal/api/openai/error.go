package openai

import (
	"net/http"

	"switchyard.dev/services/platform/apierr"
)

// errorBody is the error body of the OpenAI API (platform.openai.com/docs/guides/error-codes).
type errorBody struct {
	Error errorDetail `json:"error"`
}

type errorDetail struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    string  `json:"code"`
	apierr.Detail
}

// ErrorBody returns the body of an error as clients of the OpenAI API expect it.
func ErrorBody(e *apierr.Error, requestID string) any {
	body := errorDetail{
		Message: e.Text, Type: errorType(e.Kind.HTTPStatus()), Code: ErrorCode(e), Detail: apierr.NewDetail(e, requestID),
	}
	if field := e.Field(); field != "" {
		body.Param = &field
	}
	return errorBody{body}
}

func errorType(status int) string {
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

// ErrorCode returns the reason, except for the codes that clients of that API act on: they cut the conversation, reword or
// stop.
func ErrorCode(e *apierr.Error) string {
	switch class := e.ErrorClass(); {
	case class == apierr.ClassContextOverflow:
		return "context_length_exceeded"
	case class == apierr.ClassContentPolicy:
		return "content_policy_violation"
	case e.Kind == apierr.KindUnauthenticated:
		return "invalid_api_key"
	case e.Kind == apierr.KindRateLimited:
		return "rate_limit_exceeded"
	}
	return string(e.Reason)
}
