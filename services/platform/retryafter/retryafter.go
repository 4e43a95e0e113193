// Package retryafter reads the Retry-After header of an HTTP response (RFC 9110, section 10.2.3).
package retryafter

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Parse returns the wait that the value of a Retry-After header asks for: delay-seconds, also with a decimal fraction,
// or an HTTP-date in any of its three forms, counted from now. The wait is at most limit and never negative; it is zero
// for a value that is neither form, and for a date in the past.
func Parse(value string, now time.Time, limit time.Duration) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	// ParseFloat also reads signs, exponents, hexadecimal digits and infinities, none of which is delay-seconds.
	if strings.Trim(value, "0123456789.") == "" {
		return parseSeconds(value, limit)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), limit)
}

// parseSeconds returns a number of seconds as a duration, rounded up to a nanosecond.
func parseSeconds(value string, limit time.Duration) time.Duration {
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil && !math.IsInf(seconds, 1) {
		return 0
	}
	if seconds >= limit.Seconds() {
		return limit
	}
	return time.Duration(math.Ceil(seconds * float64(time.Second)))
}
