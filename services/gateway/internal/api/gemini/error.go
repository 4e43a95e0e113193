package gemini

import (
	"fmt"
	"net/http"
	"strconv"

	"switchyard.dev/services/platform/apierr"
)

// errorBody is google.rpc.Status in its JSON form (google.aip.dev/193).
type errorBody struct {
	Error errorStatus `json:"error"`
}

type errorStatus struct {
	Code    int           `json:"code"`
	Message string        `json:"message"`
	Status  string        `json:"status"`
	Details []errorDetail `json:"details"`
	apierr.Detail
}

// errorDetail is one of google.rpc's ErrorInfo, RetryInfo and BadRequest.
type errorDetail struct {
	Type       string            `json:"@type"`
	Reason     string            `json:"reason,omitempty"`
	Domain     string            `json:"domain,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	RetryDelay string            `json:"retryDelay,omitempty"`
	Violations []violation       `json:"fieldViolations,omitempty"`
}

type violation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

const typePrefix = "type.googleapis.com/google.rpc."

// ErrorBody returns the body of an error as clients of the Gemini API expect it.
func ErrorBody(e *apierr.Error, requestID string) any {
	code := e.Kind.HTTPStatus()
	status := errorStatus{Code: code, Message: e.Text, Status: statusName(code), Detail: apierr.NewDetail(e, requestID)}
	status.Details = append(status.Details, errorDetail{
		Type: typePrefix + "ErrorInfo", Reason: string(e.Reason), Domain: "switchyard.dev",
		Metadata: map[string]string{
			"request_id": requestID, "error_class": string(status.ErrorClass), "retryable": strconv.FormatBool(status.Retryable),
		},
	})
	if status.RetryAfter > 0 {
		status.Details = append(status.Details, errorDetail{Type: typePrefix + "RetryInfo", RetryDelay: fmt.Sprintf("%ds", status.RetryAfter)})
	}
	if field := e.Field(); field != "" {
		status.Details = append(status.Details, errorDetail{Type: typePrefix + "BadRequest", Violations: []violation{{field, e.Text}}})
	}
	return errorBody{status}
}

// statusName returns the name that Google has for an HTTP status.
func statusName(code int) string {
	switch code {
	case http.StatusUnauthorized:
		return "UNAUTHENTICATED"
	case http.StatusForbidden:
		return "PERMISSION_DENIED"
	case http.StatusNotFound:
		return "NOT_FOUND"
	case http.StatusConflict:
		return "ABORTED"
	case http.StatusTooManyRequests:
		return "RESOURCE_EXHAUSTED"
	case statusCanceled:
		return "CANCELLED"
	case http.StatusNotImplemented:
		return "UNIMPLEMENTED"
	case http.StatusBadGateway, http.StatusServiceUnavailable:
		return "UNAVAILABLE"
	case http.StatusGatewayTimeout:
		return "DEADLINE_EXCEEDED"
	}
	if code >= http.StatusInternalServerError {
		return "INTERNAL"
	}
	return "INVALID_ARGUMENT"
}

// statusCanceled is the HTTP status of a request whose caller has left.
const statusCanceled = 499
