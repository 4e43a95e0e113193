package apidoc

import (
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
)

// Fixed returns a handler that serves body, with an ETag, to every client. body must not change afterwards. headers are
// pairs of name and value.
func Fixed(contentType string, body []byte, headers ...string) http.Handler {
	sum := sha256.Sum256(body)
	etag := `"` + hex.EncodeToString(sum[:16]) + `"`
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("ETag", etag)
		h.Set("Cache-Control", "public, max-age=60")
		if matches(r.Header.Get("If-None-Match"), etag) {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		h.Set("Content-Type", contentType)
		h.Set("X-Content-Type-Options", "nosniff")
		for i := 0; i+1 < len(headers); i += 2 {
			h.Set(headers[i], headers[i+1])
		}
		_, _ = w.Write(body) // The client may have disconnected.
	})
}

// matches reports whether an If-None-Match header (RFC 9110, section 13.1.2) matches an ETag.
func matches(header, etag string) bool {
	for tag := range strings.SplitSeq(header, ",") {
		tag = strings.TrimPrefix(strings.TrimSpace(tag), "W/")
		if tag == etag || tag == "*" {
			return true
		}
	}
	return false
}
