package tarpit

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestServeNeverAnswersAndEndsCleanly(t *testing.T) {
	defer goleak.VerifyNone(t)
	var lc net.ListenConfig
	ln, err := lc.Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, ln) }()

	dialCtx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	dialer := &tls.Dialer{Config: &tls.Config{ServerName: "localhost", MinVersion: tls.VersionTLS12}}
	conn, err := dialer.DialContext(dialCtx, "tcp", ln.Addr().String())
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("handshake: %v, %v; want the deadline", conn, err)
	}
	held, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	stop()
	if err := <-done; err != nil {
		t.Errorf("Serve: %v", err)
	}
	if _, err := held.Read(make([]byte, 1)); err == nil {
		t.Error("a byte came out of the tarpit")
	}
}
