package openai

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

// problem is an error document. OpenAI puts it under "error"; compatible servers send the error as a string, put its
// fields at the top, call it "detail", or wrap everything in a list. The message may be an object, the code a string or
// a status.
type problem struct {
	Message    json.RawMessage `json:"message"`
	Type       string          `json:"type"`
	Code       any             `json:"code"`
	InnerError struct {
		Code string `json:"code"`
	} `json:"innererror"`
}

// rule assigns a class to errors. A rule applies only to statuses for which gate returns true; then the code is
// compared, then the text.
type rule struct {
	gate  func(status int) bool
	codes []string
	// texts are in lower case; the message must contain one of them.
	texts []string
	class apierr.Class
}

// rules are the rules, of which the first match applies; without a match the status alone decides. They cover every
// code of ResponseError, with which a response fails after it has begun, except server_error. Source: OpenAI API
// reference, "Responses", and its OpenAPI description, ResponseErrorCode.
var rules = []rule{
	{inRequest, []string{"string_above_max_length"}, nil, apierr.ClassPolicy},
	{inRequest, []string{"context_length_exceeded", "exceed_context_size_error"}, []string{
		"maximum context length", "input tokens exceed the configured limit", "request too large for",
		"is longer than the model's context length", "maximum input length is", "exceeds the available context size",
		"total length of all messages is too long", "too large for model with", "reduce the length of the messages",
		"exceed the context window", "exceeds the context window",
	}, apierr.ClassContextOverflow},
	{inContent, []string{
		"content_policy_violation", "image_content_policy_violation", "bio_policy", "moderation_blocked", "content_filter", "contentFilter", "ResponsibleAIPolicyViolation",
	}, []string{
		"violating our usage policy", "safety system", "input was flagged", "content management policy",
	}, apierr.ClassContentPolicy},
	{belowServer, []string{
		"insufficient_quota", "billing_hard_limit_reached", "billing_not_active", "access_terminated",
		"invalid_api_key", "account_deactivated",
	}, nil, apierr.ClassAuth},
	{inRequest, []string{
		"invalid_prompt", "data_residency_mismatch", "invalid_image", "invalid_image_format", "invalid_base64_image",
		"invalid_image_url", "image_too_large", "image_too_small", "image_parse_error", "invalid_image_mode",
		"image_file_too_large", "unsupported_image_media_type", "empty_image_file", "failed_to_download_image",
		"image_file_not_found",
	}, nil, apierr.ClassPolicy},
	{always, []string{"vector_store_timeout"}, nil, apierr.ClassTransient},
	{always, []string{"rate_limit_exceeded", "rate_limit_error", "slow_down", "too_many_requests"}, nil, apierr.ClassRateLimit},
	{inBand, []string{
		"invalid_request_error", "invalid_value", "invalid_type", "missing_required_parameter", "unknown_parameter",
		"unsupported_parameter", "unsupported_value", "model_not_found",
	}, nil, apierr.ClassPolicy},
}

// The gates. A status below 400 is that of an error inside an answer that began well; an error in a stream has the
// status 0.
func inBand(status int) bool { return status < http.StatusBadRequest }

// inRequest reports whether the request may be at fault. Old servers answer 500 to a prompt that is too long.
func inRequest(status int) bool {
	return inBand(status) || slices.Contains([]int{
		http.StatusBadRequest, http.StatusRequestEntityTooLarge, http.StatusUnprocessableEntity,
		http.StatusTooManyRequests, http.StatusInternalServerError,
	}, status)
}

func inContent(status int) bool { return inRequest(status) || status == http.StatusForbidden }

func belowServer(status int) bool { return status < http.StatusInternalServerError }

func always(int) bool { return true }

// classify classifies an error body by status gate, then code, then text.
func classify(e *provider.Error, _ http.Header, body []byte) {
	p := parseProblem(body)
	e.Code, e.Text = p.code(), plain(p.Message)
	e.Class = p.class(p.status(e.Status), e.Text)
	if e.Class == apierr.ClassRateLimit && e.RetryAfter == 0 {
		e.RetryAfter = waitInText(e.Text)
	}
}

func (p problem) class(status int, text string) apierr.Class {
	codes, text := []string{p.code(), p.Type, p.InnerError.Code}, strings.ToLower(text)
	for _, r := range rules {
		if r.gate(status) && (r.matchesCode(codes) || r.matchesText(text)) {
			return r.class
		}
	}
	return byStatus(status)
}

func (r rule) matchesCode(codes []string) bool {
	return slices.ContainsFunc(codes, func(code string) bool { return code != "" && slices.Contains(r.codes, code) })
}

func (r rule) matchesText(text string) bool {
	return slices.ContainsFunc(r.texts, func(sign string) bool { return strings.Contains(text, sign) })
}

// byStatus returns the class of a status by itself. A redirect, which no vendor sends, is the server's fault.
func byStatus(status int) apierr.Class {
	switch {
	case status == http.StatusTooManyRequests:
		return apierr.ClassRateLimit
	case status == http.StatusUnauthorized, status == http.StatusForbidden, status == http.StatusPaymentRequired:
		return apierr.ClassAuth
	case status == http.StatusRequestTimeout, status == http.StatusConflict, status == http.StatusGatewayTimeout, status == 499:
		return apierr.ClassTransient
	case status >= 500, inBand(status):
		return apierr.ClassServerError
	}
	return apierr.ClassPolicy
}

func parseProblem(body []byte) problem {
	var list []json.RawMessage
	if bytes.HasPrefix(bytes.TrimSpace(body), []byte{'['}) && json.Unmarshal(body, &list) == nil && len(list) > 0 {
		body = list[0]
	}
	var doc struct {
		Error json.RawMessage `json:"error"`
		problem
		Detail json.RawMessage `json:"detail"`
	}
	if json.Unmarshal(body, &doc) != nil {
		return problem{}
	}
	var p problem
	switch {
	case bytes.HasPrefix(doc.Error, []byte{'{'}):
		_ = json.Unmarshal(doc.Error, &p)
		return p
	case plain(doc.Error) != "":
		return problem{Message: doc.Error}
	case doc.Message == nil:
		doc.Message = doc.Detail
	}
	return doc.problem
}

// code returns the code, or else the type; a number is a status.
func (p problem) code() string {
	if text, ok := p.Code.(string); ok && text != "" {
		return text
	}
	return p.Type
}

// status returns the code if it is an HTTP status: an error inside a stream or a 200 has no other, and a relay in
// between may have changed the answer's own.
func (p problem) status(status int) int {
	if code, ok := p.Code.(float64); ok && code >= 400 && code < 600 {
		return int(code)
	}
	return status
}

// plain returns a JSON string's text, or any other JSON as it is.
func plain(raw json.RawMessage) string {
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

// wait matches a wait in messages: "try again in 6m0.5s", "retry after 7 seconds".
var wait = regexp.MustCompile(`(?i)(?:try again in|retry (?:after|in)) ((?:\d{1,6}(?:\.\d{1,6})?(?:ms|h|m|s)){1,3})|(?:try again in|retry (?:after|in)) (\d{1,6}) seconds?`)

// waitInText returns the wait in the text of a rate limit error; headers may lack it.
func waitInText(text string) time.Duration {
	found := wait.FindStringSubmatch(text)
	if found == nil {
		return 0
	}
	duration := found[1]
	if duration == "" {
		duration = found[2] + "s"
	}
	d, err := time.ParseDuration(duration)
	if err != nil {
		return 0
	}
	return min(d, wire.MaxRetryAfter)
}
