package site_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/site"
)

// Each file has its media type and the policy, and pages can be compressed.
func TestHandlers(t *testing.T) {
	handlers, err := site.Handlers()
	if err != nil {
		t.Fatal(err)
	}
	if len(handlers) < 100 {
		t.Errorf("%d files", len(handlers))
	}
	for at, h := range handlers {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
		r.Header.Set("Accept-Encoding", "gzip")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		head := w.Header()
		if w.Code != http.StatusOK || head.Get("ETag") == "" || head.Get("Content-Type") == "" {
			t.Errorf("%s: %d %v", at, w.Code, head)
		}
		policy := head.Get("Content-Security-Policy")
		for _, bad := range []string{"unsafe", "*", "http", "data:"} {
			if policy == "" || strings.Contains(policy, bad) {
				t.Errorf("%s: policy %q", at, policy)
			}
		}
		if packed := head.Get("Content-Encoding") == "gzip"; strings.HasSuffix(at, ".html") && !packed || strings.HasSuffix(at, ".png") && packed {
			t.Errorf("%s: compressed: %v", at, packed)
		}
	}
	if handlers[site.Prefix] == nil || handlers[site.Prefix+"search.html"] == nil {
		t.Error("no first page, or no search")
	}
}
