// Package apierr owns the one error type that may cross a service's boundary.
// Domain packages return it, package rpc renders it on both faces. Any other
// error is internal: its text is logged, never shown.
package apierr

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Reason is the stable code of an error: the lower-case name of a value of the
// contract's ErrorReason enum, for example "rate_limited".
type Reason string

// Reasons that every service shares. Further ones belong to the packages that
// return them.
const (
	ReasonInvalidRequest   Reason = "invalid_request"
	ReasonUnauthenticated  Reason = "unauthenticated"
	ReasonForbidden        Reason = "forbidden"
	ReasonNotFound         Reason = "not_found"
	ReasonMethodNotAllowed Reason = "method_not_allowed"
	ReasonConflict         Reason = "conflict"
	ReasonTooLarge         Reason = "too_large"
	ReasonUnprocessable    Reason = "unprocessable"
	ReasonRateLimited      Reason = "rate_limited"
	ReasonCancelled        Reason = "cancelled"
	ReasonInternal         Reason = "internal"
	ReasonNotImplemented   Reason = "not_implemented"
	ReasonUnavailable      Reason = "unavailable"
	ReasonTimeout          Reason = "timeout"
)

// Class is the specification's error_class, made for programs to branch on.
type Class string

// The closed set of classes. The first three may be retried.
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

// Error is an error that its caller may read.
type Error struct {
	// Kind decides the HTTP status and the gRPC code.
	Kind Kind
	// Reason is the stable code.
	Reason Reason
	// Class is the error_class; the kind's own when empty.
	Class Class
	// Text is for people. It must not hold a secret or another system's text.
	Text string
	// RetryAfter is the least time to wait; zero means not said.
	RetryAfter time.Duration
	// Cause is logged and unwrapped, never shown.
	Cause error
}

// New returns an error of a kind with its stable reason and a text for people.
func New(kind Kind, reason Reason, text string) *Error {
	return &Error{Kind: kind, Reason: reason, Text: text}
}

// Invalid refuses a request field: the text is "field: rule".
func Invalid(field, rule string) *Error {
	return New(KindInvalid, ReasonInvalidRequest, field+": "+rule)
}

// NotFound says that a thing is not there, or not the caller's.
func NotFound(thing string) *Error {
	return New(KindNotFound, ReasonNotFound, thing+" not found")
}

// Internal hides the cause behind a fixed text.
func Internal(cause error) *Error {
	e := New(KindInternal, ReasonInternal, "internal error; quote the request id to support")
	e.Cause = cause
	return e
}

// Unavailable says that a dependency is away; the caller may try again soon.
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

// ErrorClass is the error's class, or that of its kind.
func (e *Error) ErrorClass() Class {
	if e.Class != "" {
		return e.Class
	}
	return e.Kind.traits().class
}

// RetryAfterSeconds is RetryAfter rounded up to whole seconds; zero means not said.
func (e *Error) RetryAfterSeconds() int {
	return int((e.RetryAfter + time.Second - 1) / time.Second)
}

// Error is the text for the log: what the caller sees, then the cause.
func (e *Error) Error() string {
	if e.Cause == nil {
		return e.Text
	}
	return fmt.Sprintf("%s: %v", e.Text, e.Cause)
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// From turns any error into one that may be shown: an *Error in its chain as it
// is, ended contexts and gRPC statuses by their code, anything else internal.
// It returns nil for nil.
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
	}
	return Internal(err)
}

func timeout() *Error { return New(KindTimeout, ReasonTimeout, "the request ran out of time") }

func cancelled() *Error { return New(KindCanceled, ReasonCancelled, "the request was cancelled") }
