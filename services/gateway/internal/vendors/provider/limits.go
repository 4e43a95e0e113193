package provider

import "time"

// Limits are what a vendor says is left of a credential's rate limit, by the
// headers of its last answer. The tightest of the vendor's windows counts.
type Limits struct {
	Requests, Tokens Allowance
}

// Allowance is what is left of one limit.
type Allowance struct {
	// Known reports whether the vendor said anything.
	Known bool
	// Remaining requests or tokens, never negative.
	Remaining int64
	// Reset is the time until the limit is whole again, capped like a
	// Retry-After; 0 when the vendor didn't say.
	Reset time.Duration
}

// LimitedStream is a Stream that knows the limits of its response's head.
type LimitedStream interface {
	Stream
	Limits() Limits
}
