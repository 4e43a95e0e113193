package api_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"testing"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/edge/internal/proxy"
)

// controlled is a world whose operators' calls are relayed to https://control/base.
func controlled(t *testing.T) (x *world, relayed *[]string, refreshed *int) {
	t.Helper()
	relayed, refreshed = new([]string), new(int)
	x = newWorldWith(t, &api.Control{
		URL: &url.URL{Scheme: "https", Host: "control", Path: "/base/"},
		Relay: relayFunc(func(w http.ResponseWriter, _ *http.Request, call proxy.Call) error {
			*relayed = append(*relayed, call.Target.String())
			if call.Organization != "" || call.Key != "" {
				t.Errorf("%s carries an identity of the edge", call.Target)
			}
			call.Succeeded(false)
			_, err := io.WriteString(w, "{}")
			return err
		}),
		Proxies: decision.Proxies{netip.MustParsePrefix("192.0.2.0/24")}, // The address of httptest's requests.
		Refresh: func(context.Context) { *refreshed++ },
	})
	return x, relayed, refreshed
}

type relayFunc func(w http.ResponseWriter, r *http.Request, call proxy.Call) error

func (f relayFunc) Do(w http.ResponseWriter, r *http.Request, call proxy.Call) error {
	return f(w, r, call)
}

// Operators' paths reach the control as they are, with any credentials or none, and a change is known here before it is
// answered.
func TestControlIsRelayed(t *testing.T) {
	x, relayed, refreshed := controlled(t)
	for _, tt := range []struct {
		method, path, want string
		refreshed          int
	}{
		{"GET", "/admin/v1/keys?limit=2&cursor=a%20b;c", "https://control/base/admin/v1/keys?limit=2&cursor=a%20b;c", 0},
		{"HEAD", "/admin/v1/keys", "https://control/base/admin/v1/keys", 0},
		{"DELETE", "/admin/v1/keys/a%2Fb%00", "https://control/base/admin/v1/keys/a%2Fb%00", 1},
		{"PROPFIND", "/admin/v1/", "https://control/base/admin/v1/", 1},
		{"GET", "/decisions/abc", "https://control/base/decisions/abc", 0},
		{"POST", "/decisions/abc", "https://control/base/decisions/abc", 0},
		{"OPTIONS", "/v1/decisions/abc", "https://control/base/v1/decisions/abc", 0},
		{"POST", "/slack/interactions", "https://control/base/slack/interactions", 0},
	} {
		*relayed, *refreshed = nil, 0
		if w := x.do(t, tt.method, tt.path, "", "{}"); w.Code != http.StatusOK {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, w.Code, w.Body)
		}
		if len(*relayed) != 1 || (*relayed)[0] != tt.want || *refreshed != tt.refreshed {
			t.Errorf("%s %s: relayed %q and refreshed %d times, want %q and %d", tt.method, tt.path, *relayed, *refreshed, tt.want, tt.refreshed)
		}
	}
}

// What needs no key is limited for each address, also behind a trusted proxy, and nothing of it delays others.
func TestPublicPathsOfControlAreLimited(t *testing.T) {
	x, relayed, _ := controlled(t)
	from := func(address, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, http.NoBody)
		r.Header.Set("X-Forwarded-For", address)
		w := httptest.NewRecorder()
		x.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/decisions/canary", "/v1/decisions/canary", "/slack/interactions"} {
		*relayed = nil
		limited := 0
		for range 300 {
			switch w := from("198.51.100.1", path); {
			case w.Code == http.StatusTooManyRequests && w.Header().Get("Retry-After") != "":
				limited++
			case w.Code != http.StatusOK:
				t.Fatalf("%s: %d %s", path, w.Code, w.Body)
			}
		}
		if limited == 0 || len(*relayed)+limited != 300 || len(*relayed) < 100 {
			t.Errorf("%s: %d of 300 calls are limited, %d relayed", path, limited, len(*relayed))
		}
		others := 0
		for i := range 100 { // As many as one address may make at once.
			if from(fmt.Sprintf("203.0.113.%d", i), path).Code == http.StatusOK {
				others++
			}
		}
		if others < 90 { // Some may share a bucket.
			t.Errorf("%s: %d of 100 other addresses behind the proxy are admitted", path, others)
		}
	}
	if w := x.do(t, http.MethodGet, "/admin/v1/keys", "", ""); w.Code != http.StatusOK {
		t.Errorf("operators: %d", w.Code)
	}
}

// Nothing else is relayed: neither the control's metrics and probes nor paths in disguise.
func TestOtherPathsAreNotRelayed(t *testing.T) {
	x, relayed, _ := controlled(t)
	for _, path := range []string{"/metrics", "/admin", "/admin/v1", "/admin/v2/keys", "/admin/v1/../../metrics", "/admin/v1/%2e%2e/%2e%2e/metrics", "//admin/v1/keys"} {
		if w := x.do(t, http.MethodGet, path, "", ""); w.Code != http.StatusNotFound && w.Code != http.StatusTemporaryRedirect || len(*relayed) > 0 {
			t.Errorf("%s: %d, relayed %q", path, w.Code, *relayed)
		}
	}
	if w := newWorld(t).do(t, http.MethodGet, "/admin/v1/keys", "", ""); w.Code != http.StatusNotFound {
		t.Errorf("without a control: %d, want 404", w.Code)
	}
}
