package connpool

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit"
)

// A server that closes an idle connection, or talks on it unasked, costs no
// request: whoever takes the connection looks at it, unless it was given back just
// now.
func TestIdleConnectionIsLookedAt(t *testing.T) {
	for name, more := range map[string]string{"closed": "", "talks": "HTTP/1.1 408 Request Timeout\r\n\r\n"} {
		t.Run(name, func(t *testing.T) {
			connected := make(chan net.Conn, 2) // the server's sides
			server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				_, _ = io.WriteString(w, "text")
			}))
			server.Config.ConnContext = func(ctx context.Context, c net.Conn) context.Context {
				connected <- c
				return ctx
			}
			server.Start()
			defer server.Close()
			pool := New(Options{})
			defer pool.CloseIdleConnections()
			call := func() {
				t.Helper()
				r, _ := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
				response, err := pool.RoundTrip(r)
				if err != nil {
					t.Fatal(err)
				}
				_, _ = io.ReadAll(response.Body)
				_ = response.Body.Close()
			}
			call()
			first := pool.idle[address{"http", server.Listener.Addr().String()}][0]
			if now := first.since; !first.usable(now) || !first.usable(now.Add(time.Second)) || first.usable(now.Add(pool.options.IdleTime)) {
				t.Error("an open connection may be used until its time")
			}
			served := <-connected
			if _, _ = io.WriteString(served, more); more == "" {
				_ = served.Close()
			}
			testkit.Wait(t, 10*time.Second, "the server's word to arrive", func() error {
				if first.since = time.Now().Add(-time.Second); first.usable(time.Now()) {
					return io.ErrNoProgress
				}
				return nil
			})
			if !first.usable(first.since) {
				t.Error("it is looked at at once")
			}
			call()
			if second := pool.idle[first.to]; len(second) != 1 || second[0] == first {
				t.Error("the closed connection is kept")
			}
		})
	}
}
