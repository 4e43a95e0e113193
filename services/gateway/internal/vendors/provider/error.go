package provider

import (
	"fmt"
	"regexp"
	"slices"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Error is a failure of one attempt at one vendor, classified by its dialect.
type Error struct {
	// Class decides whether another candidate is tried.
	Class apierr.Class
	// Status is the status of the vendor's answer; 0 if there was none.
	Status int
	// Code is the vendor's own code; may be empty.
	Code string
	// Text is the vendor's message, shortened, without secrets.
	Text string
	// RetryAfter is the vendor's hint, capped; 0 if there was none.
	RetryAfter time.Duration
	// ShouldRetry is the vendor's own statement whether the same request may be sent to it again (x-should-retry); nil
	// if there was none.
	ShouldRetry *bool
	// Limits are what the vendor reported as left of the rate limit.
	Limits Limits
	// Unsupported reports that another candidate may serve the request: the dialect can't express it, so that nothing
	// was sent, or the vendor refused it because its host or model lacks something.
	Unsupported bool
	// Field is the request's field that caused the error; empty if no field did, or if its name differs between faces.
	Field string
	// Cause is for the log; may be nil.
	Cause error
}

// renamed are the contract's fields that have other names, or other places, in some faces.
var renamed = []string{"messages", "provider", "reasoning", "response_format", "tools"}

// leading matches the name that a field's path begins with.
var leading = regexp.MustCompile(`^[a-z_]*`)

// Unsupported returns the error of a request that a dialect can't express. The text names the field and the rule.
func Unsupported(field, rule string) *Error {
	e := &Error{Class: apierr.ClassPolicy, Text: field + ": " + rule, Unsupported: true}
	if first := leading.FindString(field); !slices.Contains(renamed, first) {
		e.Field = field
	}
	return e
}

// Error returns the text for the log.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s (status %d, code %q): %s", e.Class, e.Status, e.Code, e.Text)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Failover reports whether another candidate may succeed where this one failed. A request that is at fault (policy,
// content, context) fails everywhere; a refused credential, or a dialect or vendor that lacks a setting, says nothing
// about another vendor.
func (e *Error) Failover() bool {
	return e.Class.Retryable() || e.Class == apierr.ClassAuth || e.Unsupported
}
