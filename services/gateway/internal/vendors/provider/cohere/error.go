package cohere

import (
	"encoding/json"
	"net/http"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Cohere's own statuses.
const (
	statusInvalidToken = 498
	statusCancelled    = 499
)

// classify classifies an error by {"message": …} and the status. Cohere has no error codes.
func classify(e *provider.Error, _ http.Header, body []byte) {
	var document struct {
		Message string `json:"message"`
	}
	_ = json.Unmarshal(body, &document)
	e.Text = document.Message
	e.Class = class(e.Status, strings.ToLower(e.Text))
}

func class(status int, text string) apierr.Class {
	switch {
	case status == http.StatusTooManyRequests && strings.Contains(text, "/ month"):
		return apierr.ClassAuth // A trial key's calls of the month are used up: waiting doesn't help.
	case status == http.StatusTooManyRequests:
		return apierr.ClassRateLimit
	case status == http.StatusBadRequest && strings.Contains(text, "too many tokens"):
		return apierr.ClassContextOverflow
	case status < http.StatusInternalServerError && (strings.Contains(text, "blocked") || strings.Contains(text, "safety")):
		return apierr.ClassContentPolicy
	case status == http.StatusUnauthorized, status == http.StatusPaymentRequired, status == http.StatusForbidden,
		status == statusInvalidToken:
		return apierr.ClassAuth
	case status == http.StatusRequestTimeout, status == http.StatusGatewayTimeout, status == statusCancelled:
		return apierr.ClassTransient
	case status >= http.StatusInternalServerError, status < http.StatusBadRequest:
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}
