// Package apierr defines the one error type that may cross a service's boundary. Domain packages return it; package rpc
// renders it on both faces. Every other error is internal: its text is logged and never shown to a caller.
package apierr

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reason is the stable code of an error: the lower-case name of a value of the contract's ErrorReason enum, for example
// "rate_limited".
type Reason string

// Reasons that all services share. Packages that return further ones define them.
const (
	ReasonInvalidRequest   Reason = "invalid_request"
	ReasonUnauthenticated  Reason = "unauthenticated"
	ReasonForbidden        Reason = "forbidden"
	ReasonNotFound         Reason = "not_found"
	ReasonMethodNotAllowed Reason = "method_not_allowed"
	ReasonConflict         Reason = "conflict"
	ReasonTooLarge         Reason = "too_large"
	ReasonUnprocessable    Reason = "unprocessable"
	ReasonUpgradeRequired  Reason = "upgrade_required"
	ReasonRateLimited      Reason = "rate_limited"
	ReasonCancelled        Reason = "cancelled"
	ReasonInternal         Reason = "internal"
	ReasonNotImplemented   Reason = "not_implemented"
	ReasonUnavailable      Reason = "unavailable"
	ReasonTimeout          Reason = "timeout"
)

// Class is the specification's error_class, which clients branch on.
type Class string

// The complete set of classes. The first three may be retried.
const (
	ClassTransient       Class = "transient"
	ClassRateLimit       Class = "rate_limit"
	ClassServerError     Class = "server_error"
	ClassAuth            Class = "auth"
	ClassPolicy          Class = "policy"
	ClassContextOverflow Class = "context_overflow"
	ClassContentPolicy   Class = "content_policy"
)

// Retryable reports whether the same request may succeed later.
func (c Class) Retryable() bool {
	return c == ClassTransient || c == ClassRateLimit || c == ClassServerError
}

// Error is an error that may be shown to a caller.
type Error struct {
	// Kind determines the HTTP status and the gRPC code.
	Kind Kind
	// Reason is the stable code.
	Reason Reason
	// Class is the error_class; empty means the default of Kind.
	Class Class
	// Text is for people. It must not contain a secret or another system's text.
	Text string
	// RetryAfter is the minimum time to wait; zero means unspecified.
	RetryAfter time.Duration
	// Violations are the places of the field at fault that break its rules, for programs; nil where Text says all. They
	// hold no value of the request. Who sets them bounds their number and their size.
	Violations []Violation
	// Cause is logged and unwrapped but never shown.
	Cause error
	// At is the request field at fault, for an error with a cause; see Field.
	At string
}

// Violation is a place in a request's field that breaks a rule.
type Violation struct {
	// Pointer is the JSON pointer (RFC 6901) of the place within the field; empty for the field itself.
	Pointer string `json:"pointer"`
	// Rule is what the place must be.
	Rule string `json:"rule"`
}

// New returns an error with a kind, its stable reason and a text for people.
func New(kind Kind, reason Reason, text string) *Error {
	return &Error{Kind: kind, Reason: reason, Text: text}
}

// Invalid returns the error of an invalid request field. Its text is "field: rule".
func Invalid(field, rule string) *Error {
	return New(KindInvalid, ReasonInvalidRequest, field+": "+rule)
}

// NotFound returns the error of a thing that doesn't exist or belongs to another caller.
func NotFound(thing string) *Error {
	return New(KindNotFound, ReasonNotFound, thing+" not found")
}

// Internal returns an error with a fixed text that hides the cause.
func Internal(cause error) *Error {
	e := New(KindInternal, ReasonInternal, "internal error; quote the request id to support")
	e.Cause = cause
	return e
}

// Unavailable returns the error of a dependency that can't be reached. The caller may try again after a second.
func Unavailable(text string, cause error) *Error {
	e := New(KindUnavailable, ReasonUnavailable, text)
	e.Cause, e.RetryAfter = cause, time.Second
	return e
}

// Wrap returns a copy of e with a cause for the log.
func (e *Error) Wrap(cause error) *Error {
	wrapped := *e
	wrapped.Cause = cause
	return &wrapped
}

// ErrorClass returns the error's class, or the default of its kind.
func (e *Error) ErrorClass() Class {
	if e.Class != "" {
		return e.Class
	}
	return e.Kind.traits().class
}

// RetryAfterSeconds returns RetryAfter rounded up to whole seconds; zero means unspecified.
func (e *Error) RetryAfterSeconds() int {
	return int((e.RetryAfter + time.Second - 1) / time.Second)
}

// Error returns the text for the log: the caller's text, then the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Text
	}
	return fmt.Sprintf("%s: %v", e.Text, e.Cause)
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// From returns err as an error that may be shown: an *Error in its chain unchanged, a gRPC status or an ended context
// by its code, an unreachable server as unavailable, any other error as internal. It returns nil for nil.
func From(err error) *Error {
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if e := fromStatus(err); e != nil {
		return e
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return timeout().Wrap(err)
	case errors.Is(err, context.Canceled):
		return cancelled().Wrap(err)
	case IsUnreachable(err):
		return Unavailable(textUnreachable, err)
	}
	return Internal(err)
}

func timeout() *Error { return New(KindTimeout, ReasonTimeout, "the request ran out of time") }

func cancelled() *Error { return New(KindCanceled, ReasonCancelled, "the request was cancelled") }
