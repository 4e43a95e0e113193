package network_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/network"
)

// Redirects are answers, and consecutive calls share a connection.
func TestNewTransport(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "http://169.254.169.254/")
		w.WriteHeader(http.StatusFound)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	transport := network.NewTransport(time.Second)
	defer transport.CloseIdleConnections()
	for range 2 {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, strings.NewReader("{}"))
		response, err := transport.RoundTrip(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
		if response.StatusCode != http.StatusFound {
			t.Errorf("status %d", response.StatusCode)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections, want 1", n)
	}
}
