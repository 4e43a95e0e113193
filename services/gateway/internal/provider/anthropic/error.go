package anthropic

import (
	"encoding/json"
	"net/http"
	"strings"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

// classify reads type, details and text; a stream's error event has no status.
func classify(e *provider.Error, _ http.Header, body []byte) {
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
	switch {
	case overflow(text):
		e.Class = apierr.ClassContextOverflow
	case strings.Contains(text, "blocked by content filtering policy"):
		e.Class = apierr.ClassContentPolicy
	case doc.Error.Details.ErrorCode == "enforced_spend_limit_reached", strings.Contains(text, "credit balance is too low"):
		e.Class = apierr.ClassAuth
	default:
		e.Class = byType(e.Status, e.Code)
	}
}

func overflow(text string) bool {
	return strings.Contains(text, "prompt is too long") || strings.Contains(text, "prompt: length") ||
		strings.Contains(text, "exceed context limit")
}

// byType: below 400 is an error inside an answer that began well (a stream's has
// the status 0), or a redirect, which no vendor gives.
func byType(status int, kind string) apierr.Class {
	switch {
	case kind == "rate_limit_error", status == http.StatusTooManyRequests:
		return apierr.ClassRateLimit
	case kind == "authentication_error", kind == "permission_error", kind == "billing_error",
		status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return apierr.ClassAuth
	case kind == "timeout_error", status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusGatewayTimeout:
		return apierr.ClassTransient
	case kind == "overloaded_error", kind == "api_error", status >= 500, status < 400 && kind != "invalid_request_error":
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}
