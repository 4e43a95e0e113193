package wire_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/providertest"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
)

func headers(pairs ...string) http.Header {
	h := http.Header{}
	for i := 0; i < len(pairs); i += 2 {
		h.Set(pairs[i], pairs[i+1])
	}
	return h
}

func TestWait(t *testing.T) {
	for value, want := range map[string]time.Duration{
		"":                                0,
		"7":                               7 * time.Second,
		" 1.5 ":                           1500 * time.Millisecond,
		"6m0s":                            wire.MaxRetryAfter,
		"1m0.5s":                          time.Minute + 500*time.Millisecond,
		"28ms":                            28 * time.Millisecond,
		"37s":                             37 * time.Second,
		"3.000000001s":                    3*time.Second + 1,
		"33011.382867097855":              wire.MaxRetryAfter,
		"1795262430":                      30 * time.Second,
		"1795262430500":                   30*time.Second + 500*time.Millisecond,
		"1795262000":                      0,
		"2026-11-21T12:00:45Z":            45 * time.Second,
		"2026-11-21T13:00:45+01:00":       45 * time.Second,
		"2026-11-21T11:59:59Z":            0,
		"Sat, 21 Nov 2026 12:00:30 GMT":   30 * time.Second,
		"Sat Nov 21 12:00:30 2026":        30 * time.Second,
		"-1":                              0,
		"0":                               0,
		"-5s":                             0,
		"-1ms":                            0,
		"NaN":                             0,
		"+Inf":                            0,
		"1e999":                           0,
		"1e300":                           wire.MaxRetryAfter,
		"9223372036854775807":             wire.MaxRetryAfter,
		"soon":                            0,
		"2540400h0s":                      wire.MaxRetryAfter,
		"3000000h0s":                      0,
		"s":                               0,
		"9999-12-31T23:59:59Z":            wire.MaxRetryAfter,
		"Fri, 31 Dec 9999 23:59:59 GMT":   wire.MaxRetryAfter,
		"Thu, 01 Jan 1970 00:00:00 GMT":   0,
		"99999999999999999999999999999ns": 0,
	} {
		if got := wire.Wait(value, noon); got != want {
			t.Errorf("Wait(%q) = %v, want %v", value, got, want)
		}
	}
}

func FuzzWait(f *testing.F) {
	for _, seed := range []string{"1", "0.5", "-3", "Inf", "6m0s", "1795262430500", "2026-11-21T12:00:45Z", "Sat, 21 Nov 2026 12:00:30 GMT"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		h := http.Header{"Retry-After": {value}, "Retry-After-Ms": {value}, "X-Ratelimit-Remaining-Tokens": {value}, "X-Ratelimit-Reset-Tokens": {value}}
		limits := wire.Limits(h, noon).Tokens
		for _, got := range []time.Duration{wire.Wait(value, noon), wire.RetryAfter(h, noon), limits.Reset} {
			if got < 0 || got > wire.MaxRetryAfter {
				t.Errorf("%q: %v", value, got)
			}
		}
		if limits.Remaining < 0 {
			t.Errorf("%q: %d left", value, limits.Remaining)
		}
	})
}

func TestLimits(t *testing.T) {
	known := func(remaining int64, reset time.Duration) provider.Allowance {
		return provider.Allowance{Known: true, Remaining: remaining, Reset: reset}
	}
	for name, tt := range map[string]struct {
		header http.Header
		want   provider.Limits
	}{
		"none": {headers("Content-Type", "application/json"), provider.Limits{}},
		"OpenAI": {
			headers("x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "1s",
				"x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6ms"),
			provider.Limits{Requests: known(59, time.Second), Tokens: known(149984, 6*time.Millisecond)},
		},
		"Anthropic, the tightest": {
			headers("anthropic-ratelimit-requests-remaining", "49", "anthropic-ratelimit-requests-reset", "2026-11-21T12:00:02Z",
				"anthropic-ratelimit-tokens-remaining", "9000", "anthropic-ratelimit-tokens-reset", "2026-11-21T12:00:09Z",
				"anthropic-ratelimit-input-tokens-remaining", "7000", "anthropic-ratelimit-input-tokens-reset", "2026-11-21T12:00:07Z",
				"anthropic-ratelimit-output-tokens-remaining", "8000"),
			provider.Limits{Requests: known(49, 2*time.Second), Tokens: known(7000, 7*time.Second)},
		},
		"Cerebras, day and minute": {
			headers("x-ratelimit-remaining-requests-day", "900", "x-ratelimit-reset-requests-day", "33011.38",
				"x-ratelimit-remaining-tokens-minute", "12", "x-ratelimit-reset-tokens-minute", "11.5"),
			provider.Limits{Requests: known(900, wire.MaxRetryAfter), Tokens: known(12, 11500*time.Millisecond)},
		},
		"OpenRouter, Unix milliseconds": {
			headers("X-RateLimit-Remaining", "0", "X-RateLimit-Reset", "1795262430000"),
			provider.Limits{Requests: known(0, 30*time.Second)},
		},
		"Azure doesn't know": {
			headers("x-ratelimit-remaining-requests", "-1", "x-ratelimit-remaining-tokens", "-1", "x-ratelimit-reset-tokens", "0"),
			provider.Limits{},
		},
		"as much left of two windows, the longer one": {
			headers("x-ratelimit-remaining-tokens", "5", "x-ratelimit-reset-tokens", "1s",
				"x-ratelimit-remaining-tokens-day", "5", "x-ratelimit-reset-tokens-day", "3s",
				"x-ratelimit-remaining-tokens-minute", "5", "x-ratelimit-reset-tokens-minute", "2s"),
			provider.Limits{Tokens: known(5, 3*time.Second)},
		},
		"unknown windows": {
			headers("x-ratelimit-remaining-tokens-week", "5", "anthropic-ratelimit-tokens-limit", "7", "x-ratelimit-limit-tokens", "9"),
			provider.Limits{},
		},
		"not numbers": {headers("x-ratelimit-remaining-requests", "many"), provider.Limits{}},
		"no reset":    {headers("x-ratelimit-remaining-tokens", "0"), provider.Limits{Tokens: known(0, 0)}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, wire.Limits(tt.header, noon)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// The wait of a refusal is read from every header that vendors use for it.
func TestRefusalsTellWhenToComeBack(t *testing.T) {
	exhausted := headers("x-ratelimit-remaining-requests", "0", "x-ratelimit-reset-requests", "20s",
		"x-ratelimit-remaining-tokens", "10", "x-ratelimit-reset-tokens", "40s")
	with := func(h http.Header, name, value string) http.Header {
		h = h.Clone()
		h.Set(name, value)
		return h
	}
	for name, tt := range map[string]struct {
		class  apierr.Class
		header http.Header
		want   time.Duration
		retry  *bool
	}{
		"Retry-After wins":                  {apierr.ClassRateLimit, with(exhausted, "Retry-After", "3"), 3 * time.Second, nil},
		"what is used up":                   {apierr.ClassRateLimit, exhausted, 20 * time.Second, nil},
		"both used up":                      {apierr.ClassRateLimit, with(exhausted, "x-ratelimit-remaining-tokens", "0"), 40 * time.Second, nil},
		"nothing used up":                   {apierr.ClassRateLimit, with(exhausted, "x-ratelimit-remaining-requests", "1"), 20 * time.Second, nil},
		"a failure has limits but no wait":  {apierr.ClassServerError, exhausted, 0, nil},
		"a zero Retry-After is no hint":     {apierr.ClassRateLimit, with(exhausted, "Retry-After", "0"), 20 * time.Second, nil},
		"the vendor says not to":            {apierr.ClassServerError, headers("x-should-retry", "false"), 0, new(false)},
		"the vendor says to":                {apierr.ClassPolicy, headers("x-should-retry", "True"), 0, new(true)},
		"the vendor says something else":    {apierr.ClassPolicy, headers("x-should-retry", "perhaps"), 0, nil},
		"sentinels of Azure's, no hint":     {apierr.ClassRateLimit, headers("retry-after-ms", "-1", "retry-after", "-1", "x-ratelimit-reset-tokens", "0"), 0, nil},
		"a moment of Anthropic's as a wait": {apierr.ClassRateLimit, headers("anthropic-ratelimit-tokens-reset", "2026-11-21T12:00:09Z"), 9 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				maps.Copy(w.Header(), tt.header)
				w.WriteHeader(http.StatusTooManyRequests)
			}))
			defer server.Close()
			c := caller(http.StatusTooManyRequests)
			c.Classify = func(e *provider.Error, _ http.Header, _ []byte) { e.Class = tt.class }
			_, err := c.Post(t.Context(), at(t, server.URL), http.Header{}, nil) //nolint:bodyclose // It fails.
			e := providertest.ErrorOf(t, err)
			if e.RetryAfter != tt.want || !cmp.Equal(e.ShouldRetry, tt.retry) {
				t.Errorf("RetryAfter = %v, ShouldRetry = %v, want %v, %v", e.RetryAfter, e.ShouldRetry, tt.want, tt.retry)
			}
			if diff := cmp.Diff(wire.Limits(tt.header, noon), e.Limits); diff != "" {
				t.Errorf("limits (-want +got):\n%s", diff)
			}
		})
	}
}

func BenchmarkLimits(b *testing.B) {
	plain := []string{"content-type", "application/json", "content-length", "1100", "date", "Sat, 21 Nov 2026 12:00:30 GMT"}
	limits := []string{
		"x-ratelimit-limit-requests", "60", "x-ratelimit-remaining-requests", "59", "x-ratelimit-reset-requests", "1s",
		"x-ratelimit-limit-tokens", "150000", "x-ratelimit-remaining-tokens", "149984", "x-ratelimit-reset-tokens", "6ms",
	}
	vendor := slices.Concat(plain, []string{
		"server", "cloudflare", "cf-ray", "1", "cf-cache-status", "DYNAMIC", "alt-svc", "h3", "set-cookie", "a=b", "x-request-id", "req_1",
		"openai-organization", "o", "openai-processing-ms", "500", "openai-version", "2020-10-01", "openai-project", "p",
		"strict-transport-security", "max-age=1", "x-content-type-options", "nosniff", "access-control-expose-headers", "x",
	})
	for name, h := range map[string]http.Header{
		"none": headers(plain...), "none of a vendor": headers(vendor...), "of a vendor": headers(slices.Concat(vendor, limits)...),
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				wire.Limits(h, noon)
			}
		})
	}
}
