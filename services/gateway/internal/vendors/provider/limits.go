package provider

import "time"

// Limits are what a vendor reports as left of a credential's rate limit, in the headers of its last answer. The
// tightest of the vendor's windows counts.
type Limits struct {
	Requests, Tokens Allowance
}

// Allowance is what is left of one limit.
type Allowance struct {
	// Known reports whether the vendor reported anything.
	Known bool
	// Remaining is the number of requests or tokens left, never negative.
	Remaining int64
	// Reset is the time until the limit is fully available again, capped like a Retry-After; 0 if the vendor didn't
	// report it.
	Reset time.Duration
}

// LimitedStream is a Stream that has the limits from its response's head.
type LimitedStream interface {
	Stream
	Limits() Limits
}
