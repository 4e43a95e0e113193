package connpool_test

import (
	"context"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/connpool"
)

// endlessServer is a connection to a server that answers any request with an endless body, always ready to be read.
type endlessServer struct {
	net.Conn

	head io.Reader
}

func (s endlessServer) Read(p []byte) (int, error) {
	if n, err := s.head.Read(p); err == nil {
		return n, nil
	}
	return len(p), nil
}

func (endlessServer) Write(p []byte) (int, error)      { return len(p), nil }
func (endlessServer) SetDeadline(time.Time) error      { return nil }
func (endlessServer) SetReadDeadline(time.Time) error  { return nil }
func (endlessServer) SetWriteDeadline(time.Time) error { return nil }
func (endlessServer) Close() error                     { return nil }

// On a single processor, other goroutines run while an endless body is read.
func TestEndlessBodiesYield(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	pool := connpool.New(connpool.Options{Dial: func(context.Context, string, string) (net.Conn, error) {
		return endlessServer{head: strings.NewReader("HTTP/1.1 200 OK\r\n\r\n")}, nil
	}})
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server", nil)
	if err != nil {
		t.Fatal(err)
	}
	response, err := pool.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()

	var turns atomic.Int64
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for turns.Add(1) > 0 {
			runtime.Gosched()
		}
	}()
	const size = 1 << 20
	if _, err := io.CopyN(io.Discard, response.Body, size); err != nil {
		t.Fatal(err)
	}
	if got := turns.Swap(-size); got < 32 {
		t.Errorf("another goroutine ran %d times while 1 MiB was read, want once for each 32 KiB at least", got)
	}
	<-ended
}
