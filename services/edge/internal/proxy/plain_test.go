package proxy_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
)

// servePlain serves a plain relay in front of a service; errs holds the error of each call.
func servePlain(t *testing.T, upstream string) (address string, errs chan error) {
	t.Helper()
	target, err := url.Parse(upstream + "/")
	if err != nil {
		t.Fatal(err)
	}
	transport := proxy.Transport(nil)
	t.Cleanup(transport.CloseIdleConnections)
	relay, errs := proxy.NewPlain(transport, bounds), make(chan error, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		errs <- relay.Do(w, r, proxy.Call{
			Target: target.JoinPath(r.URL.Path), Timeout: time.Minute,
			Inject: func(h http.Header) { h.Set("Traceparent", "of-the-edge") },
		})
	}))
	t.Cleanup(server.Close)
	return server.URL, errs
}

// A plain relay passes the caller's own headers and those of the answer, none of the edge's, and none of a connection.
func TestPlain(t *testing.T) {
	service := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, want := range map[string]string{
			"Authorization": "Bearer of-the-caller", "Cookie": "session=1", "X-Custom": "kept", "Traceparent": "of-the-edge",
			"X-Hop": "", "Te": "", "Keep-Alive": "", "X-Organization-Id": "", "X-Key-Id": "",
		} {
			if got := r.Header.Get(name); got != want {
				t.Errorf("the service got %s %q, want %q", name, got, want)
			}
		}
		body, _ := io.ReadAll(r.Body)
		w.Header().Set("Set-Cookie", "session=2")
		w.Header().Set("Www-Authenticate", "Bearer")
		w.Header().Set("Connection", "X-Between")
		w.Header().Set("X-Between", "1")
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write(append(body, " refused"...))
	}))
	t.Cleanup(service.Close)
	address, errs := servePlain(t, service.URL)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPut, address+"/admin", strings.NewReader("change"))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]string{
		"Authorization": "Bearer of-the-caller", "Cookie": "session=1", "X-Custom": "kept", "Connection": "x-hop, keep-alive",
		"X-Hop": "1", "Te": "trailers", "Keep-Alive": "timeout=5",
	} {
		r.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = answer.Body.Close() }()
	text, err := io.ReadAll(answer.Body)
	if err != nil || answer.StatusCode != http.StatusUnauthorized || string(text) != "change refused" {
		t.Errorf("%d %q: %v; want the service's 401", answer.StatusCode, text, err)
	}
	for name, want := range map[string]string{"Set-Cookie": "session=2", "Www-Authenticate": "Bearer", "X-Between": ""} {
		if got := answer.Header.Get(name); got != want {
			t.Errorf("the caller got %s %q, want %q", name, got, want)
		}
	}
	if err := <-errs; err != nil {
		t.Error(err)
	}
}

func TestPlainWithoutItsService(t *testing.T) {
	service := httptest.NewServer(http.NotFoundHandler())
	service.Close()
	address, errs := servePlain(t, service.URL)
	if answer, err := http.Get(address); err == nil {
		_ = answer.Body.Close()
	}
	if e := apierr.From(<-errs); e.Kind != apierr.KindUnavailable || e.RetryAfter == 0 {
		t.Errorf("error %v, want unavailable with a time to wait", e)
	}
}
