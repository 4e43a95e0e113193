package console_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/operations/console"
)

func get(t *testing.T, path string, headers ...string) *http.Response {
	t.Helper()
	handlers, err := console.Handlers()
	if err != nil || handlers[path] == nil {
		t.Fatal(path, err)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	handlers[path].ServeHTTP(w, r)
	return w.Result()
}

// The page works without the internet and runs only its own script.
func TestPageIsWhole(t *testing.T) {
	elsewhere := regexp.MustCompile(`(?i)(https?:)?//[a-z0-9]|@import|url\(`)
	inline := regexp.MustCompile(`(?i)<script(?: defer)?>|<style|\son[a-z]+=|\sstyle=|javascript:`)
	handlers, _ := console.Handlers()
	for path := range handlers {
		resp := get(t, path) //nolint:bodyclose // of a recorder
		text, _ := io.ReadAll(resp.Body)
		if policy := resp.Header.Get("Content-Security-Policy"); !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: policy %q", path, policy)
		}
		code := regexp.MustCompile(`(?m)^\s*//.*$`).ReplaceAllString(string(text), "")
		code = strings.ReplaceAll(code, `xmlns="http://www.w3.org/2000/svg"`, "") // It names a vocabulary.
		if found := elsewhere.FindString(code); found != "" {
			t.Errorf("%s names another place: %q", path, found)
		}
		if found := inline.FindString(string(text)); strings.HasSuffix(path, "console") && found != "" {
			t.Errorf("%s has script or style within: %q", path, found)
		}
		for _, way := range []string{"innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval(", "localStorage", "document.cookie"} {
			if strings.Contains(code, way) {
				t.Errorf("%s uses %s", path, way)
			}
		}
		again := get(t, path, "If-None-Match", resp.Header.Get("Etag")) //nolint:bodyclose // of a recorder
		if again.StatusCode != http.StatusNotModified {
			t.Errorf("%s: %d for the same", path, again.StatusCode)
		}
	}
}
