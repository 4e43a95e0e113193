package delivery

import (
	"math"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// RetryAfter parses the header of that name (RFC 9110, 10.2.3): seconds, with an optional fraction, or a date in one
// of HTTP's three forms. It returns zero for anything else and for a past date, and at most 24 hours.
func RetryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if value == "" {
		return 0
	}
	if at, err := http.ParseTime(value); err == nil {
		return clampDelay(at.Sub(now))
	}
	// ParseFloat also accepts hexadecimal, infinities and underscores, which are not valid here.
	if strings.Trim(value, "0123456789.") != "" {
		return 0
	}
	seconds, err := strconv.ParseFloat(value, 64)
	if err != nil && !math.IsInf(seconds, 1) {
		return 0
	}
	if seconds >= maxDelay.Seconds() {
		return maxDelay
	}
	return clampDelay(time.Duration(math.Ceil(seconds * float64(time.Second))))
}

func clampDelay(d time.Duration) time.Duration { return min(max(d, 0), maxDelay) }
