package proxy_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/socket"
)

// The service gets the terms of the key as the edge knows them, over HTTP and in the upgrade to a WebSocket connection;
// those that a customer sends never arrive.
func TestTermsOfTheKey(t *testing.T) {
	const own, forged = `{"key":"key_1","tpm":7}`, `{"key":"other"}`
	for name, terms := range map[string]string{"a key with terms": own, "a key without terms": ""} {
		t.Run(name, func(t *testing.T) {
			want := []string{terms}
			if terms == "" {
				want = nil
			}
			var got []string
			e := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r.Header.Values("X-Key-Terms") }), func(call *proxy.Call) { call.Terms = terms })
			for _, name := range []string{"X-Key-Terms", "x-key-terms", "X-KEY-TERMS", "X_Key_Terms"} {
				e.post(t, strings.NewReader("{}"), http.Header{name: {forged, forged}})
				if strings.Join(got, "|") != strings.Join(want, "|") {
					t.Errorf("%s over HTTP: the service got %q, want %q", name, got, want)
				}
			}
			x := newTunnel(t)
			x.terms = terms
			x.open(t) // The customer sends terms, too.
			if got := x.headers.Values("X-Key-Terms"); strings.Join(got, "|") != strings.Join(want, "|") {
				t.Errorf("over a WebSocket: the service got %q, want %q", got, want)
			}
		})
	}
}

// A connection whose key has other terms now takes no request any more, and ends after the responses in flight.
func TestTunnelWithOtherTerms(t *testing.T) {
	for name, inFlight := range map[string]bool{"in flight": true, "idle": false} {
		t.Run(name, func(t *testing.T) {
			x := newTunnel(t)
			customer, service := x.open(t)
			if inFlight {
				write(t, customer, request)
				receive(t, service)
			}
			x.admit = func() error { return apierr.Unavailable("connect again", socket.ErrStale) }
			write(t, customer, request)
			if got := receive(t, customer); got != `{"refused":"unavailable "}` {
				t.Errorf("a request under other terms: %s", got)
			}
			if inFlight {
				write(t, service, completed)
				if got := receive(t, customer); got != completed {
					t.Errorf("the response in flight: %s", got)
				}
			}
			if a, b := code(t, customer), code(t, service); a != 1012 || b != 1012 {
				t.Errorf("closed with %d and %d, want 1012", a, b)
			}
		})
	}
}
