package wire

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// window is a rate limit that a pair of headers reports.
type window struct {
	tokens           bool
	remaining, reset string
}

// windows are the headers of OpenAI and vendors with the same headers (Azure, Groq, Mistral, Cerebras with days and
// minutes), of OpenRouter, and of Anthropic.
var windows = []window{
	{false, "X-Ratelimit-Remaining-Requests", "X-Ratelimit-Reset-Requests"},
	{true, "X-Ratelimit-Remaining-Tokens", "X-Ratelimit-Reset-Tokens"},
	{false, "X-Ratelimit-Remaining-Requests-Day", "X-Ratelimit-Reset-Requests-Day"},
	{false, "X-Ratelimit-Remaining-Requests-Minute", "X-Ratelimit-Reset-Requests-Minute"},
	{true, "X-Ratelimit-Remaining-Tokens-Day", "X-Ratelimit-Reset-Tokens-Day"},
	{true, "X-Ratelimit-Remaining-Tokens-Minute", "X-Ratelimit-Reset-Tokens-Minute"},
	{false, "X-Ratelimit-Remaining", "X-Ratelimit-Reset"},
	{false, "Anthropic-Ratelimit-Requests-Remaining", "Anthropic-Ratelimit-Requests-Reset"},
	{true, "Anthropic-Ratelimit-Tokens-Remaining", "Anthropic-Ratelimit-Tokens-Reset"},
	{true, "Anthropic-Ratelimit-Input-Tokens-Remaining", "Anthropic-Ratelimit-Input-Tokens-Reset"},
	{true, "Anthropic-Ratelimit-Output-Tokens-Remaining", "Anthropic-Ratelimit-Output-Tokens-Reset"},
}

// Limits returns what the headers of a vendor's answer report as left, from the tightest window of each kind. Negative
// counts are Azure's sign of "not known".
func Limits(header http.Header, now time.Time) provider.Limits {
	var limits provider.Limits
	for name := range header { // Once over the present headers: most windows are absent.
		w, ok := windowOf(name)
		if !ok {
			continue
		}
		remaining, ok := number(first(header, w.remaining))
		if !ok || remaining < 0 {
			continue
		}
		found := provider.Allowance{Known: true, Remaining: int64(min(remaining, 1e15)), Reset: Wait(first(header, w.reset), now)}
		kept := &limits.Requests
		if w.tokens {
			kept = &limits.Tokens
		}
		if !kept.Known || found.Remaining < kept.Remaining || (found.Remaining == kept.Remaining && found.Reset > kept.Reset) {
			*kept = found
		}
	}
	return limits
}

// windowOf returns the window whose remaining count a header reports.
func windowOf(name string) (window, bool) {
	if !strings.HasPrefix(name, "X-Ratelimit-Remaining") && !strings.HasPrefix(name, "Anthropic-Ratelimit-") {
		return window{}, false
	}
	i := slices.IndexFunc(windows, func(w window) bool { return w.remaining == name })
	if i < 0 {
		return window{}, false
	}
	return windows[i], true
}

// resetAfter returns the hint of a rate-limited answer without a Retry-After: the longest reset of the windows that are
// used up, or else the shortest reset of all.
func resetAfter(header http.Header, now time.Time) time.Duration {
	var usedUp, shortest time.Duration
	for _, w := range windows {
		reset := Wait(first(header, w.reset), now)
		if reset == 0 {
			continue
		}
		if shortest == 0 || reset < shortest {
			shortest = reset
		}
		if remaining, ok := number(first(header, w.remaining)); ok && remaining == 0 {
			usedUp = max(usedUp, reset)
		}
	}
	if usedUp > 0 {
		return usedUp
	}
	return shortest
}

// shouldRetry returns the value of x-should-retry (OpenAI, Anthropic), or nil if it is absent.
func shouldRetry(header http.Header) *bool {
	switch strings.ToLower(first(header, "X-Should-Retry")) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}
