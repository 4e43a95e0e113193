package demo_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/notify/internal/demo"
)

// The page reaches two paths of the fake push service through the demo, without its credentials.
func TestPushService(t *testing.T) {
	type call struct{ Verb, Path, Query, Body, Credentials string }
	var calls []call
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		calls = append(calls, call{r.Method, r.URL.Path, r.URL.RawQuery, string(body), r.Header.Get("Cookie") + r.Header.Get("Authorization")})
		if r.Host != r.Context().Value(http.LocalAddrContextKey).(net.Addr).String() {
			t.Errorf("called as %s, want its own address", r.Host)
		}
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"from":"the service"}`)
	}))
	t.Cleanup(service.Close)
	address := strings.TrimPrefix(service.URL, "http://")

	send := func(h http.Handler, verb, path, body string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(verb, "http://localhost:8104"+path, strings.NewReader(body))
		r.Header.Set("Cookie", "a=b")
		r.Header.Set("Authorization", "Bearer x")
		for i := 0; i+1 < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w
	}
	h := demo.Handler(http.NotFoundHandler(), "", address)
	for _, tt := range []struct {
		verb, path, body string
		header           []string
		status           int
	}{
		{"GET", "/push-service", "", nil, http.StatusOK},
		{"POST", "/push-service/subscriptions", `{"application_server_key":"k"}`, nil, http.StatusCreated},
		{"GET", "/push-service/messages?limit=5&path=%2Fpush%2FA", "", nil, http.StatusCreated},
		{"POST", "/push-service/subscriptions", "{}", []string{"Sec-Fetch-Site", "cross-site"}, http.StatusForbidden},
		{"DELETE", "/push-service/messages", "", nil, http.StatusNotFound},
		{"GET", "/push-service/script", "", nil, http.StatusNotFound},
	} {
		if w := send(h, tt.verb, tt.path, tt.body, tt.header...); w.Code != tt.status {
			t.Errorf("%s %s: %d %s, want %d", tt.verb, tt.path, w.Code, w.Body, tt.status)
		}
	}
	want := []call{
		{Verb: "POST", Path: "/_subscriptions", Body: `{"application_server_key":"k"}`},
		{Verb: "GET", Path: "/_messages", Query: "limit=5&path=%2Fpush%2FA"},
	}
	if diff := cmp.Diff(want, calls); diff != "" {
		t.Errorf("calls of the service (-want +got):\n%s", diff)
	}
	for push, says := range map[string]string{address: `{"available":true}`, "": `{"available":false}`} {
		if w := send(demo.Handler(http.NotFoundHandler(), "", push), "GET", "/push-service", ""); strings.TrimSpace(w.Body.String()) != says {
			t.Errorf("with %q: %s, want %s", push, w.Body, says)
		}
	}
	if w := send(h, "POST", "/push-service/subscriptions", strings.Repeat("x", 5000)); w.Code == http.StatusCreated {
		t.Errorf("5,000 bytes were taken: %d", w.Code)
	}
	service.Close()
	if w := send(h, "GET", "/push-service/messages", ""); w.Code != http.StatusBadGateway || !strings.Contains(w.Body.String(), `"error"`) {
		t.Errorf("without the service: %d %s", w.Code, w.Body)
	}
}
