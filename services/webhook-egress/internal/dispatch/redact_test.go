package dispatch

import (
	"encoding/base64"
	"testing"
)

func TestResponseText(t *testing.T) {
	basic := "Basic " + base64.StdEncoding.EncodeToString([]byte("ann:pässword-1"))
	tests := map[string]struct{ credential, body, want string }{
		"the whole value":     {"Bearer tok-12345678", "you sent Bearer tok-12345678.", "you sent [redacted]."},
		"behind the scheme":   {"Bearer tok-12345678", `{"token":"tok-12345678"}`, `{"token":"[redacted]"}`},
		"a short token":       {"Bearer abc", "got abc", "got [redacted]"},
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
			if got, _ := responseText([]byte(tt.body), []string{tt.credential}); got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
