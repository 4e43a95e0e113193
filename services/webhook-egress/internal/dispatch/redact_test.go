package dispatch

import (
	"encoding/base64"
	"strings"
	"testing"

	"switchyard.dev/services/platform/testkit/growth"
)

func TestResponseText(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:pässword-1"))
	tests := map[string]struct{ credential, body, want string }{
		"the whole value":     {"Bearer tok-12345678", "you sent Bearer tok-12345678.", "you sent [redacted]."},
		"behind the scheme":   {"Bearer tok-12345678", `{"token":"tok-12345678"}`, `{"token":"[redacted]"}`},
		"a short token":       {"Bearer abc", "got nothing", ""},
		"a short value":       {"e", "hello", ""},
		"a short password":    {"Basic " + base64.StdEncoding.EncodeToString([]byte("ann:pass")), "hello", ""},
		"only a user":         {"Basic " + base64.StdEncoding.EncodeToString([]byte("sk-12345678:")), "sk-12345678", "[redacted]"},
		"nothing":             {"", "hello", "hello"},
		"in JSON":             {`tok"12345678/`, `{"a":"tok\"12345678/","b":"tok\"12345678\/"}`, `{"a":"[redacted]","b":"[redacted]"}`},
		"slashes escaped":     {"tok/12345678", `{"a":"tok\/12345678"}`, `{"a":"[redacted]"}`},
		"in a URL":            {"tok+12345678", "?t=tok%2B12345678", "?t=[redacted]"},
		"a replacement":       {"redacted", "redacted", "[redacted]"},
		"Basic, encoded":      {basic, "got " + basic[6:], "got [redacted]"},
		"Basic, decoded":      {basic, "ann:pässword-1 and pässword-1", "[redacted] and [redacted]"},
		"a parameter":         {`Digest username="ann", response="0123456789abcdef"`, "r=0123456789abcdef", "r=[redacted]"},
		"a cookie":            {"theme=dark; session=s3cr3t-session", "session s3cr3t-session", "session [redacted]"},
		"a signing secret":    {"whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw or MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "[redacted] or [redacted]"},
		"a bare key":          {"k-0123456789", "key k-0123456789", "key [redacted]"},
		"an innocent mention": {"Bearer tok-12345678", "Bearer tokens are refused", "Bearer tokens are refused"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, cut := newRedactor([]string{tt.credential}).responseText([]byte(tt.body), true)
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
			if withheld := tt.want == ""; cut != withheld {
				t.Errorf("marked as truncated: %v, want %v", cut, withheld)
			}
		})
	}
}

// Credentials are removed from Retry-After. A short one leaves only a number or a date, without the credential.
func TestRetryAfterText(t *testing.T) {
	const date = "Sun, 01 Mar 2026 12:00:00 GMT"
	for _, tt := range []struct {
		credentials []string
		value       string
		valid       bool
		want        string
	}{
		{nil, "1800", true, "1800"},
		{nil, "soon", false, "soon"},
		{[]string{"a-long-secret"}, "1800", true, "1800"},
		{[]string{"a-long-secret"}, "a-long-secret", false, "[redacted]"},
		{[]string{"1234567890"}, "1234567890", true, "[redacted]"},
		{[]string{"s3cret"}, "1800", true, "1800"},
		{[]string{"s3cret"}, date, true, date},
		{[]string{"s3cret"}, "s3cret", false, ""},
		{[]string{"s3cret"}, "soon", false, ""},
		{[]string{"471100"}, "471100", true, ""},
		{[]string{"s3cret", "1234567890"}, "1234567890", true, "[redacted]"},
		{[]string{"Bearer 2026"}, date, true, ""},
	} {
		if got := newRedactor(tt.credentials).retryAfter(tt.value, tt.valid); got != tt.want {
			t.Errorf("%q with %q: got %q, want %q", tt.value, tt.credentials, got, tt.want)
		}
	}
}

// The beginning of a secret at the end of what was read is not kept, however much
// of the text before it was secrets.
func TestResponseTextCutWithinASecret(t *testing.T) {
	secret := strings.Repeat("0123456789abcdef", 512)
	body := strings.Repeat(secret, 7) + secret[:5000]
	text, cut := newRedactor([]string{secret}).responseText([]byte(body), false)
	if strings.Contains(text, secret[:minSecret]) {
		t.Errorf("kept %q", text)
	}
	if !cut {
		t.Error("not marked as truncated")
	}
}

// Four times the headers, or four times the text, take about four times the
// memory, whatever the values are: replacements are not searched again.
func TestRedactionIsLinear(t *testing.T) {
	for name, value := range map[string]func(i int) string{
		"one letter":           func(int) string { return "e" },
		"one of a replacement": func(int) string { return "redacted" },
		"a replacement":        func(int) string { return "[redacted]" },
		"many of one prefix":   func(i int) string { return strings.Repeat("a", 8+i) },
		"parts within parts":   func(i int) string { return strings.Repeat("redacted;", 1+i) },
	} {
		t.Run(name, func(t *testing.T) {
			cost := func(headers, size int) uint64 {
				var secrets []string
				for i := range headers {
					secrets = append(secrets, value(i))
				}
				body := []byte(strings.Repeat("e redacted aaaaaaaaaaaa", size))
				return growth.Allocated(func() { newRedactor(secrets).responseText(body, true) })
			}
			if few, many := cost(4, 16), cost(16, 16); many > 16*few {
				t.Errorf("4 headers take %d bytes, 16 take %d", few, many)
			}
			if short, long := cost(8, 16), cost(8, 64); long > 16*short {
				t.Errorf("a text takes %d bytes, one of four times its size %d", short, long)
			}
		})
	}
}
