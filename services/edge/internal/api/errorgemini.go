package api

import (
	"fmt"
	"net/http"
	"strconv"

	"switchyard.dev/services/platform/apierr"
)

// geminiError is the error body of the Gemini API: google.rpc.Status in its JSON form (google.aip.dev/193).
type geminiError struct {
	Error geminiStatus `json:"error"`
}

type geminiStatus struct {
	Code    int            `json:"code"`
	Message string         `json:"message"`
	Status  string         `json:"status"`
	Details []geminiDetail `json:"details"`
	apierr.Detail
}

// geminiDetail is one of google.rpc's ErrorInfo, RetryInfo and BadRequest.
type geminiDetail struct {
	Type       string            `json:"@type"`
	Reason     string            `json:"reason,omitempty"`
	Domain     string            `json:"domain,omitempty"`
	Metadata   map[string]string `json:"metadata,omitempty"`
	RetryDelay string            `json:"retryDelay,omitempty"`
	Violations []geminiViolation `json:"fieldViolations,omitempty"`
}

type geminiViolation struct {
	Field       string `json:"field"`
	Description string `json:"description"`
}

const geminiType = "type.googleapis.com/google.rpc."

// newGemini returns the body of an error as clients of the Gemini API expect it.
func newGemini(e *apierr.Error, requestID string) any {
	code := e.Kind.HTTPStatus()
	status := geminiStatus{Code: code, Message: e.Text, Status: geminiStatusName(code), Detail: apierr.NewDetail(e, requestID)}
	status.Details = append(status.Details, geminiDetail{
		Type: geminiType + "ErrorInfo", Reason: string(e.Reason), Domain: "switchyard.dev",
		Metadata: map[string]string{
			"request_id": requestID, "error_class": string(status.ErrorClass), "retryable": strconv.FormatBool(status.Retryable),
		},
	})
	if status.RetryAfter > 0 && status.Retryable { // Clients retry if there is a RetryInfo.
		status.Details = append(status.Details, geminiDetail{Type: geminiType + "RetryInfo", RetryDelay: fmt.Sprintf("%ds", status.RetryAfter)})
	}
	if field := e.Field(); field != "" {
		status.Details = append(status.Details, geminiDetail{Type: geminiType + "BadRequest", Violations: []geminiViolation{{field, e.Text}}})
	}
	return geminiError{status}
}

// geminiStatusName returns the name that Google has for an HTTP status.
func geminiStatusName(code int) string {
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
	case geminiCanceled:
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

// geminiCanceled is the HTTP status of a request whose caller has left.
const geminiCanceled = 499
