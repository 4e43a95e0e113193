package proxy_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/proxy"
)

// A caller that has an answer gets 304 without a body, which doesn't count, on the face of keys and of end users. Headers
// that no service reads stay out.
func TestConditionalRequests(t *testing.T) {
	const tag = `"v1"`
	for name, face := range map[string]func(*proxy.Call){
		"key": func(*proxy.Call) {}, "token": func(call *proxy.Call) { call.User = "ann" },
	} {
		for match, want := range map[string]int{"": 200, `"v0"`: 200, tag: 304, `"v0", W/"v1"`: 304, "*": 304} {
			t.Run(name+" with "+match, func(t *testing.T) {
				var got http.Header
				e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					got = r.Header
					w.Header().Set("ETag", tag)
					w.Header().Set("Cache-Control", "no-cache")
					if named := r.Header.Get("If-None-Match"); named == "*" || strings.Contains(named, tag) {
						w.WriteHeader(http.StatusNotModified)
						return
					}
					_, _ = io.WriteString(w, "all of it")
				}), face)
				header := http.Header{"If-Modified-Since": {"Sun, 29 Nov 2026 12:00:00 GMT"}, "If-Match": {tag}, "Range": {"bytes=0-1"}, "If-Range": {tag}}
				if match != "" {
					header.Set("If-None-Match", match)
				}
				answer := e.post(t, http.NoBody, header)
				body := text(t, answer.Body)
				if answer.StatusCode != want || answer.Header.Get("Etag") != tag || answer.Header.Get("Cache-Control") != "no-cache" {
					t.Errorf("%d %v, want %d with the tag", answer.StatusCode, answer.Header, want)
				}
				if whole := body == "all of it"; whole != (want == http.StatusOK) || !whole && body != "" || e.counted.Load() != int64(len(body)/9) {
					t.Errorf("body %q, counted %d", body, e.counted.Load())
				}
				for _, name := range []string{"If-Modified-Since", "If-Match", "Range", "If-Range"} {
					if got.Get(name) != "" {
						t.Errorf("the service got %s", name)
					}
				}
			})
		}
	}
}
