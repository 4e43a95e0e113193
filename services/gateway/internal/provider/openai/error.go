package openai

import (
	"encoding/json"
	"net/http"
	"strings"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

// document is OpenAI's error body; compatible servers leave parts out, send
// numbers for codes, or put the fields at the top.
type document struct {
	Error   json.RawMessage `json:"error"`
	Message string          `json:"message"`
	Detail  json.RawMessage `json:"detail"`
	Code    any             `json:"code"`
	Type    string          `json:"type"`
}

type detail struct {
	Message    string `json:"message"`
	Type       string `json:"type"`
	Code       any    `json:"code"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"`
}

// classify reads status, then code, then text: a later one is only asked when
// the earlier leaves the class open.
func classify(e *provider.Error, _ http.Header, body []byte) {
	d := parse(body)
	e.Code, e.Text = code(d), d.Message
	if e.Text == "" {
		e.Text = http.StatusText(e.Status)
	}
	text := strings.ToLower(d.Message)
	switch {
	case overflow(e.Code, text):
		e.Class = apierr.ClassContextOverflow
	case contentPolicy(e.Code, d.InnerError.Code, text):
		e.Class = apierr.ClassContentPolicy
	case e.Code == "insufficient_quota" || e.Code == "billing_hard_limit_reached" || e.Code == "invalid_api_key":
		e.Class = apierr.ClassAuth
	default:
		e.Class = byStatus(e.Status, e.Code, d.Type)
	}
}

func parse(body []byte) detail {
	var doc document
	if json.Unmarshal(body, &doc) != nil {
		return detail{}
	}
	var d detail
	var text string
	switch {
	case doc.Error == nil:
		d = detail{Message: doc.Message, Type: doc.Type, Code: doc.Code}
		if d.Message == "" && doc.Detail != nil {
			d.Message = string(doc.Detail)
		}
	case json.Unmarshal(doc.Error, &text) == nil:
		d.Message = text
	default:
		_ = json.Unmarshal(doc.Error, &d)
	}
	return d
}

// code prefers the code and falls back to the type; numbers only repeat the status.
func code(d detail) string {
	if text, ok := d.Code.(string); ok && text != "" {
		return text
	}
	return d.Type
}

func overflow(code, text string) bool {
	if code == "context_length_exceeded" || code == "string_above_max_length" {
		return code == "context_length_exceeded"
	}
	for _, sign := range []string{
		"maximum context length", "input tokens exceed the configured limit", "request too large for",
		"is longer than the model's context length", "maximum input length is", "exceeds the available context size",
		"total length of all messages is too long", "too large for model with",
	} {
		if strings.Contains(text, sign) {
			return true
		}
	}
	return false
}

func contentPolicy(code, inner, text string) bool {
	switch {
	case code == "content_policy_violation", code == "moderation_blocked", code == "content_filter", inner == "ResponsibleAIPolicyViolation":
		return true
	}
	return strings.Contains(text, "violating our usage policy") || strings.Contains(text, "safety system")
}

// byStatus is the status gate. A stream's error event has none (0): its code
// and type must do.
func byStatus(status int, code, kind string) apierr.Class {
	switch {
	case status == http.StatusTooManyRequests, code == "rate_limit_exceeded", code == "slow_down", kind == "rate_limit_error":
		return apierr.ClassRateLimit
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return apierr.ClassAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusGatewayTimeout, status == 499:
		return apierr.ClassTransient
	case status >= 500, status == 0 && kind != "invalid_request_error":
		return apierr.ClassServerError
	case status == 200:
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}
