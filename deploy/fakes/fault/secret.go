package fault

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

var secretHeaders = []string{
	"Authorization", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Goog-Api-Key", "Cookie", "Password",
}

var secretParams = []string{"key", "api_key", "apikey", "token", "access_token"}

// HashSecret returns how a credential appears in call lists, so that a test which knows the credential can check
// whether it was the one sent.
func HashSecret(s string) string {
	sum := sha256.Sum256([]byte(s))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// RedactHeader returns a copy of h with each credential hashed. The scheme of
// an Authorization stays readable: "Bearer sha256:...".
func RedactHeader(h http.Header) http.Header {
	out := h.Clone()
	for _, name := range secretHeaders {
		for i, v := range out.Values(name) {
			scheme, secret, found := strings.Cut(v, " ")
			if found && strings.HasSuffix(name, "Authorization") {
				out[name][i] = scheme + " " + HashSecret(secret)
			} else {
				out[name][i] = HashSecret(v)
			}
		}
	}
	return out
}

func redactQuery(raw string) string {
	if raw == "" {
		return ""
	}
	query, err := url.ParseQuery(raw)
	if err != nil {
		return HashSecret(raw)
	}
	for name, values := range query {
		if !slices.Contains(secretParams, strings.ToLower(name)) {
			continue
		}
		for i, v := range values {
			values[i] = HashSecret(v)
		}
	}
	return query.Encode()
}
