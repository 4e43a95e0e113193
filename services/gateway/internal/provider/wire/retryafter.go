package wire

import (
	"net/http"
	"strconv"
	"strings"
	"time"
)

// MaxRetryAfter caps a vendor's hint: an unbounded one would take a key out for
// a day.
const MaxRetryAfter = 5 * time.Minute

// RetryAfter reads a vendor's hint, the most exact form first: milliseconds
// (OpenAI, Azure), then seconds, whole or not, or an HTTP date (RFC 9110,
// 10.2.3). It is never negative nor above MaxRetryAfter; 0 means no usable hint.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
		if ms, err := strconv.ParseFloat(strings.TrimSpace(header.Get(name)), 64); err == nil && ms > 0 {
			return capped(ms / 1000)
		}
	}
	value := strings.TrimSpace(header.Get("Retry-After"))
	if seconds, err := strconv.ParseFloat(value, 64); err == nil {
		if seconds > 0 {
			return capped(seconds)
		}
		return 0
	}
	if at, err := http.ParseTime(value); err == nil && at.After(now) {
		return min(at.Sub(now), MaxRetryAfter)
	}
	return 0
}

func capped(seconds float64) time.Duration {
	if seconds >= MaxRetryAfter.Seconds() {
		return MaxRetryAfter
	}
	return time.Duration(seconds * float64(time.Second))
}
