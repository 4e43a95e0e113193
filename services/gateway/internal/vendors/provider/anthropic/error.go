package anthropic

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// Classify classifies an error body. The status decides which texts are compared, because a rate limit may mention
// tokens, too; a stream's error event has no status. Then come details, text and type.
func Classify(e *provider.Error, _ http.Header, body []byte) {
	var doc struct {
		Error struct {
			Type    string `json:"type"`
			Message string `json:"message"`
			Details struct {
				ErrorCode string `json:"error_code"`
			} `json:"details"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &doc)
	e.Code, e.Text = doc.Error.Type, doc.Error.Message
	text := strings.ToLower(e.Text)
	switch fault := e.Status <= http.StatusBadRequest || e.Status == http.StatusRequestEntityTooLarge; {
	case fault && overflow(text):
		e.Class = apierr.ClassContextOverflow
	case fault && strings.Contains(text, "blocked by content filtering policy"):
		e.Class = apierr.ClassContentPolicy
	case doc.Error.Details.ErrorCode == "enforced_spend_limit_reached", fault && spent(text):
		e.Class, e.RetryAfter = apierr.ClassAuth, 0
	default:
		e.Class = byType(e.Status, e.Code)
	}
}

// spent reports whether the account's money or its own limit is used up: the key fails until the account's owner
// changes that.
func spent(text string) bool {
	return strings.Contains(text, "credit balance is too low") || strings.Contains(text, "you have reached your specified api usage limits")
}

func overflow(text string) bool {
	return strings.Contains(text, "prompt is too long") || strings.Contains(text, "prompt: length") ||
		strings.Contains(text, "exceed context limit")
}

// refusals are the error types that blame the request.
var refusals = []string{"invalid_request_error", "not_found_error", "request_too_large"}

// byType returns the class of a status and an error type. A status below 400 is that of an error inside an answer that
// began well (0 in a stream), or a redirect, which no vendor sends.
func byType(status int, kind string) apierr.Class {
	switch {
	case kind == "rate_limit_error", status == http.StatusTooManyRequests:
		return apierr.ClassRateLimit
	case kind == "authentication_error", kind == "permission_error", kind == "billing_error",
		status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return apierr.ClassAuth
	case kind == "timeout_error", status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusGatewayTimeout:
		return apierr.ClassTransient
	case kind == "overloaded_error", kind == "api_error", status >= 500, status < 400 && !slices.Contains(refusals, kind):
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}
