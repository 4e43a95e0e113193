package wire

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"

	"switchyard.dev/services/platform/retryafter"
)

// MaxRetryAfter caps a vendor's hint: an unbounded hint could disable a key for a day.
const MaxRetryAfter = 5 * time.Minute

// RetryAfter returns a vendor's hint, from the most exact form: milliseconds (OpenAI, Azure, AWS), then Retry-After in any
// form of Wait. It is never negative nor above MaxRetryAfter; 0 means no usable hint.
func RetryAfter(header http.Header, now time.Time) time.Duration {
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "X-Amz-Retry-After"} {
		if ms, ok := number(first(header, name)); ok && ms > 0 {
			return capped(ms / 1000)
		}
	}
	return Wait(first(header, "Retry-After"), now)
}

// Numbers above these can't be seconds to wait: they are Unix times, in seconds or in milliseconds.
const (
	unixSeconds      = 1e9
	unixMilliseconds = 1e12
)

// Wait parses a time to wait in all forms that vendors use: seconds, whole or decimal; a duration that ends in "s"
// ("6m0s", "28ms", a google.protobuf.Duration "37s"); a moment as Unix time, HTTP date (RFC 9110, 5.6.7) or RFC 3339.
// It returns 0 for a value that is negative or zero (Azure's signs of "not known"), past, or not readable, and at most
// MaxRetryAfter.
func Wait(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if n, ok := number(value); ok {
		switch {
		case n > unixMilliseconds:
			return capped((n - float64(now.UnixMilli())) / 1000)
		case n > unixSeconds:
			return capped(n - float64(now.UnixMilli())/1000)
		case n <= 0:
			return 0
		}
		return retryafter.Parse(value, now, MaxRetryAfter)
	}
	if strings.HasSuffix(value, "s") {
		d, _ := time.ParseDuration(value)
		return bounded(d)
	}
	if at, err := time.Parse(time.RFC3339, value); err == nil {
		return bounded(at.Sub(now))
	}
	return retryafter.Parse(value, now, MaxRetryAfter)
}

// number checks the text before it parses it, because a failed parse allocates an error.
func number(value string) (float64, bool) {
	value = strings.TrimSpace(value)
	if value == "" || value[0] > '9' || value[len(value)-1] < '0' || value[len(value)-1] > '9' {
		return 0, false
	}
	n, err := strconv.ParseFloat(value, 64)
	return n, err == nil && !math.IsNaN(n) && !math.IsInf(n, 0)
}

func bounded(d time.Duration) time.Duration { return max(0, min(d, MaxRetryAfter)) }

func capped(seconds float64) time.Duration {
	if seconds >= MaxRetryAfter.Seconds() {
		return MaxRetryAfter
	}
	return max(0, time.Duration(seconds*float64(time.Second)))
}

// first is header.Get for a name in canonical form.
func first(header http.Header, name string) string {
	if values := header[name]; len(values) > 0 {
		return values[0]
	}
	return ""
}
