package provider

import (
	"fmt"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Error is a failure of one attempt at one vendor, classified by its dialect.
type Error struct {
	// Class decides whether another candidate is tried.
	Class apierr.Class
	// Status of the vendor's answer; 0 when there was none.
	Status int
	// Code is the vendor's own code; may be empty.
	Code string
	// Text is the vendor's message, shortened, without secrets.
	Text string
	// RetryAfter is the vendor's hint, capped; 0 when there was none.
	RetryAfter time.Duration
	// Cause for the log; may be nil.
	Cause error
}

// Error is the text for the log.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s (status %d, code %q): %s", e.Class, e.Status, e.Code, e.Text)
	if e.Cause != nil {
		text += ": " + e.Cause.Error()
	}
	return text
}

// Unwrap gives the cause.
func (e *Error) Unwrap() error { return e.Cause }

// Failover tells whether another candidate may succeed where this one failed.
// A request that is at fault (policy, content, context) fails everywhere; a
// credential that is refused says nothing about another vendor.
func (e *Error) Failover() bool {
	return e.Class.Retryable() || e.Class == apierr.ClassAuth
}
