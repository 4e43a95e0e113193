package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

// document is OpenAI's error body. Compatible servers give the error as a text,
// put its fields at the top, call it "detail", or wrap it all in a list.
type document struct {
	Error json.RawMessage `json:"error"`
	problem
	Detail json.RawMessage `json:"detail"`
}

// problem's message may be an object too; its code a text or a status.
type problem struct {
	Message    json.RawMessage `json:"message"`
	Type       string          `json:"type"`
	Code       any             `json:"code"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"`
}

// classify reads code, then text, then status: the exact sign goes first.
func classify(e *provider.Error, _ http.Header, body []byte) {
	p := parse(body)
	e.Code, e.Text = p.code(), text(p.Message)
	lower := strings.ToLower(e.Text)
	switch {
	case e.Code == "string_above_max_length":
		e.Class = apierr.ClassPolicy
	case overflow(e.Code, lower):
		e.Class = apierr.ClassContextOverflow
	case contentPolicy(e.Code, p.InnerError.Code, lower):
		e.Class = apierr.ClassContentPolicy
	case e.Code == "insufficient_quota" || e.Code == "billing_hard_limit_reached" || e.Code == "invalid_api_key":
		e.Class = apierr.ClassAuth
	default:
		e.Class = byStatus(p.status(e.Status), e.Code, p.Type)
	}
}

func parse(body []byte) problem {
	var list []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte{'['}) && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var doc document
	if json.Unmarshal(body, &doc) != nil {
		return problem{}
	}
	var p problem
	switch {
	case bytes.HasPrefix(doc.Error, []byte{'{'}):
		_ = json.Unmarshal(doc.Error, &p)
		return p
	case text(doc.Error) != "":
		return problem{Message: doc.Error}
	case doc.Message == nil:
		doc.Message = doc.Detail
	}
	return doc.problem
}

// code prefers the code and falls back to the type; a number is a status.
func (p problem) code() string {
	if text, ok := p.Code.(string); ok && text != "" {
		return text
	}
	return p.Type
}

// status is the code where that is a number: an error inside a stream or a 200
// has no other, and a relay in between may have changed the answer's own.
func (p problem) status(status int) int {
	if code, ok := p.Code.(float64); ok && code >= 400 && code < 600 {
		return int(code)
	}
	return status
}

// text is a JSON string's text, or any other JSON as it is.
func text(raw json.RawMessage) string {
	var s *string
	switch {
	case len(raw) == 0:
		return ""
	case json.Unmarshal(raw, &s) != nil:
		return string(raw)
	case s == nil:
		return ""
	}
	return *s
}

func overflow(code, text string) bool {
	if code == "context_length_exceeded" {
		return true
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
	return strings.Contains(text, "violating our usage policy") || strings.Contains(text, "safety system") ||
		strings.Contains(text, "input was flagged")
}

// byStatus is the status gate. Below 400 is an error inside an answer that
// began well (a stream's has the status 0), or a redirect, which no vendor gives.
func byStatus(status int, code, kind string) apierr.Class {
	switch {
	case status == http.StatusTooManyRequests, code == "rate_limit_exceeded", code == "slow_down", kind == "rate_limit_error":
		return apierr.ClassRateLimit
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return apierr.ClassAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusGatewayTimeout, status == 499:
		return apierr.ClassTransient
	case status >= 500, status < 400 && kind != "invalid_request_error":
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}
