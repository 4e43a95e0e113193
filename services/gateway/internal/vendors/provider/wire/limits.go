package wire

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// window is a rate limit as a pair of headers tells of it.
type window struct {
	tokens           bool
	remaining, reset string
}

// windows are the headers of OpenAI and those who follow it (Azure, Groq,
// Mistral, Cerebras with its days and minutes), of OpenRouter, and of Anthropic.
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

// Limits reads what a vendor's answer says is left, the tightest window of each
// kind. Negative counts are Azure's sign of "not known".
func Limits(header http.Header, now time.Time) provider.Limits {
	var limits provider.Limits
	for name := range header { // Once over what is there: most windows are not.
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

// windowOf is the window that a header tells the rest of.
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

// resetAfter is the hint of a rate-limited answer that names no wait of its own:
// the longest reset of what is used up, or else the shortest reset there is.
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

// shouldRetry reads x-should-retry (OpenAI, Anthropic); nil when it isn't there.
func shouldRetry(header http.Header) *bool {
	switch strings.ToLower(first(header, "X-Should-Retry")) {
	case "true":
		return new(true)
	case "false":
		return new(false)
	}
	return nil
}
