package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/proxy"
)

// A customer who doesn't read an answer that goes on and on is cut off after
// the time for one piece; one who reads slowly but steadily is not.
func TestSlowReader(t *testing.T) {
	ended := make(chan struct{}, 1)
	endless := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, "data: "+strings.Repeat("x", 1000)+"\n\n"); err != nil {
				break
			}
			_ = http.NewResponseController(w).Flush()
		}
		ended <- struct{}{}
	})
	e := serveWithin(t, proxy.Bounds{Body: 1 << 20, Memory: 1 << 20, Share: 1 << 20, BodyTime: time.Second, WriteTime: 300 * time.Millisecond}, endless)
	conn, err := net.Dial("tcp", strings.TrimPrefix(e.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, _ = io.WriteString(conn, "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}")
	begun := time.Now()
	if err := <-e.errs; !errors.Is(err, proxy.ErrCut) || time.Since(begun) < 300*time.Millisecond {
		t.Errorf("after %v: %v, want a cut", time.Since(begun), err)
	}
	<-ended // the service too is free again
}

func TestStreamMayLast(t *testing.T) {
	const pieces = 10
	slow := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for i := range pieces {
			_, _ = fmt.Fprintf(w, "data: %d\n\n", i)
			_ = http.NewResponseController(w).Flush()
			time.Sleep(50 * time.Millisecond)
		}
	})
	e := serveWithin(t, proxy.Bounds{Body: 1 << 20, Memory: 1 << 20, Share: 1 << 20, BodyTime: 100 * time.Millisecond, WriteTime: 100 * time.Millisecond}, slow)
	if got := text(t, e.post(t, strings.NewReader("{}"), nil).Body); strings.Count(got, "data: ") != pieces {
		t.Errorf("the stream was cut: %q", got)
	}
}
