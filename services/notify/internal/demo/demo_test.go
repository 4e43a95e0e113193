package demo_test

import (
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"switchyard.dev/services/notify/internal/demo"
	"switchyard.dev/services/platform/secret"
)

func TestHandler(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("tok\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var called *http.Request
	api := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { called = r })
	tests := map[string]struct {
		verb, url string
		header    http.Header
		status    int
		api       bool
	}{
		"the page":            {"GET", "http://127.0.0.1:8104/", nil, 200, false},
		"its script":          {"GET", "http://localhost:8104/app.js", nil, 200, false},
		"its worker":          {"GET", "http://[::1]:8104/sw.js", nil, 200, false},
		"a call":              {"POST", "http://localhost:8104/v1/notify", http.Header{"Sec-Fetch-Site": {"same-origin"}}, 200, true},
		"a call for others":   {"GET", "http://localhost:8104/v1/notifications", http.Header{"X-User-Id": {"ann"}, "Authorization": {"Bearer x"}}, 200, true},
		"a stranger's call":   {"POST", "http://localhost:8104/v1/notify", http.Header{"Sec-Fetch-Site": {"cross-site"}}, 403, false},
		"by another name":     {"GET", "http://evil.example:8104/", nil, 421, false},
		"by a public address": {"GET", "http://192.0.2.1:8104/", nil, 421, false},
		"no push service":     {"GET", "http://localhost:8104/push-service", nil, 200, false},
		"a subscription":      {"POST", "http://localhost:8104/push-service/subscriptions", nil, 404, false},
		"nothing":             {"GET", "http://localhost:8104/nope", nil, 404, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			called = nil
			r := httptest.NewRequest(tt.verb, tt.url, http.NoBody)
			maps.Copy(r.Header, tt.header)
			w := httptest.NewRecorder()
			demo.Handler(api, secret.File(token), "").ServeHTTP(w, r)
			if w.Code != tt.status || (called != nil) != tt.api {
				t.Fatalf("%d, api called %v", w.Code, called != nil)
			}
			if tt.api {
				for header, want := range map[string]string{
					"Authorization": "Bearer tok", "X-User-Id": demo.User, "X-Organization-Id": demo.Organization,
				} {
					if got := called.Header.Get(header); got != want {
						t.Errorf("called with %s %q, want %q", header, got, want)
					}
				}
			}
			if policy := w.Header().Get("Content-Security-Policy"); w.Code == 200 && (!strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe")) {
				t.Errorf("policy %q", policy)
			}
		})
	}
}
