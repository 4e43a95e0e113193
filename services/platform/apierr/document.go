package apierr

import (
	"net/http"
	"regexp"
)

// Document is the JSON error body of the gateway and of webhook-egress.
type Document struct {
	// Error is the reason code.
	Error Reason `json:"error"`
	// ErrorClass is the class for clients to branch on.
	ErrorClass Class `json:"error_class"`
	// Retryable reports whether the same request may succeed later.
	Retryable bool `json:"retryable"`
	// RetryAfter is in seconds, omitted if unspecified.
	RetryAfter int `json:"retry_after,omitempty"`
	// Reason is the text for people.
	Reason string `json:"reason"`
	// RequestID identifies the request in logs and traces.
	RequestID string `json:"request_id"`
	// Violations are omitted if there are none.
	Violations []Violation `json:"violations,omitempty"`
}

// NewDocument returns the Document of e.
func NewDocument(e *Error, requestID string) any {
	class := e.ErrorClass()
	return Document{
		Error: e.Reason, ErrorClass: class, Retryable: class.Retryable(),
		RetryAfter: e.RetryAfterSeconds(), Reason: e.Text, RequestID: requestID, Violations: e.Violations,
	}
}

// Plain is the JSON error body of notify: a text and when to retry.
type Plain struct {
	// Error is the text for people.
	Error string `json:"error"`
	// RetryAfter is in seconds, omitted if unspecified.
	RetryAfter int `json:"retry_after,omitempty"`
}

// NewPlain returns the Plain of e.
func NewPlain(e *Error, _ string) any { return Plain{e.Text, e.RetryAfterSeconds()} }

// Problem is the same error as a problem document (RFC 9457), for callers that accept application/problem+json.
type Problem struct {
	Type      string `json:"type"`
	Title     string `json:"title"`
	Status    int    `json:"status"`
	Detail    string `json:"detail"`
	Code      Reason `json:"code"`
	Class     Class  `json:"error_class"`
	Retryable bool   `json:"retryable"`
	// RetryAfter is in seconds, omitted if unspecified.
	RetryAfter int    `json:"retry_after,omitempty"`
	RequestID  string `json:"request_id"`
	// Violations are omitted if there are none.
	Violations []Violation `json:"violations,omitempty"`
}

// NewProblem returns the problem document of e (RFC 9457, section 3).
func NewProblem(e *Error, requestID string) Problem {
	code, class := e.Kind.HTTPStatus(), e.ErrorClass()
	title := http.StatusText(code)
	if title == "" {
		title = "Client Closed Request"
	}
	return Problem{
		Type: "about:blank", Title: title, Status: code, Detail: e.Text,
		Code: e.Reason, Class: class, Retryable: class.Retryable(), RetryAfter: e.RetryAfterSeconds(), RequestID: requestID,
		Violations: e.Violations,
	}
}

// Detail holds the fields that are added to an error body in the format of another API.
type Detail struct {
	ErrorClass Class `json:"error_class"`
	Retryable  bool  `json:"retryable"`
	// RetryAfter is in seconds, omitted if unspecified.
	RetryAfter int    `json:"retry_after,omitempty"`
	RequestID  string `json:"request_id"`
}

// NewDetail returns the detail of e.
func NewDetail(e *Error, requestID string) Detail {
	class := e.ErrorClass()
	return Detail{class, class.Retryable(), e.RetryAfterSeconds(), requestID}
}

// fieldFirst matches the field at the beginning of a text of Invalid.
var fieldFirst = regexp.MustCompile(`^([a-z][A-Za-z0-9_]*(?:[.\[][A-Za-z0-9_.\[\]]*)?): `)

// Field returns the request field that is at fault, empty if the text names none. An error with a cause is another
// party's refusal, whose text may begin with a name too; it has no field but At.
func (e *Error) Field() string {
	if e.At != "" {
		return e.At
	}
	found := fieldFirst.FindStringSubmatch(e.Text)
	if e.Kind != KindInvalid || e.Cause != nil || found == nil {
		return ""
	}
	return found[1]
}
