package telemetry_test

import (
	"bytes"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"go.opentelemetry.io/otel"
)

// Lines of libraries are logged like others, without what a server sent unasked.
func TestLibrariesLogInTheServicesForm(t *testing.T) {
	tracers, meters, propagator := otel.GetTracerProvider(), otel.GetMeterProvider(), otel.GetTextMapPropagator()
	t.Cleanup(func() {
		log.SetOutput(os.Stderr)
		log.SetFlags(log.LstdFlags)
		otel.SetTracerProvider(tracers)
		otel.SetMeterProvider(meters)
		otel.SetTextMapPropagator(propagator)
	})
	out := &signalled{written: make(chan struct{}, 1)}
	setup(t, out).Install()

	// A transport that waits detects bytes after a response without a body.
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		t.Cleanup(func() { _ = conn.Close() })
		_, _ = conn.Write([]byte("HTTP/1.1 204 No Content\r\n\r\nsecret-0123456789"))
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: new(net.Dialer).DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	response, err := transport.RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, response.Body)
	_ = response.Body.Close()
	<-out.written
	all := lines(t, &out.Buffer)
	if len(all) != 1 {
		t.Fatalf("%d lines, want 1", len(all))
	}
	text, ok := all[0]["line"].(string)
	if !ok || !strings.HasPrefix(text, "Unsolicited response") {
		t.Errorf("the line is %q", text)
	}
	if strings.Contains(out.String(), "secret") {
		t.Errorf("the line has what the server sent: %s", out.String())
	}
}

// signalled is a buffer that signals each write.
type signalled struct {
	bytes.Buffer

	written chan struct{}
}

func (s *signalled) Write(p []byte) (int, error) {
	n, err := s.Buffer.Write(p)
	s.written <- struct{}{}
	return n, err
}
