package proxy_test

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apierr"
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
	e := serveWithin(t, proxy.Bounds{Body: 1 << 20, Memory: 1 << 20, BodyTime: time.Second, WriteTime: 300 * time.Millisecond}, endless)
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
	e := serveWithin(t, proxy.Bounds{Body: 1 << 20, Memory: 1 << 20, BodyTime: 100 * time.Millisecond, WriteTime: 100 * time.Millisecond}, slow)
	if got := text(t, e.post(t, strings.NewReader("{}"), nil).Body); strings.Count(got, "data: ") != pieces {
		t.Errorf("the stream was cut: %q", got)
	}
}

// An answer of any size passes in pieces.
func TestLargeAnswerTakesNoMemory(t *testing.T) {
	const size = 256 << 20
	piece := make([]byte, 1<<20)
	e := serve(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", fmt.Sprint(size))
		for range size / len(piece) {
			_, _ = w.Write(piece)
		}
	}))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	n, err := io.Copy(io.Discard, e.post(t, strings.NewReader("{}"), nil).Body)
	runtime.ReadMemStats(&after)
	if err != nil || n != size {
		t.Fatalf("%d bytes, %v", n, err)
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 16<<20 {
		t.Errorf("%d bytes allocated for an answer of %d", took, size)
	}
}

// Larger bodies share a bounded space, by what they may become; small ones need
// none of it.
func TestBodyMemory(t *testing.T) {
	arrived, release := make(chan struct{}, 8), make(chan struct{})
	e := serveWithin(t, proxy.Bounds{Body: 1 << 20, Memory: 2 << 20, BodyTime: time.Minute, WriteTime: time.Minute},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			arrived <- struct{}{}
			<-release
		}))
	large := strings.Repeat("x", 1<<20)
	done := make(chan int, 2)
	for range 2 {
		go func() {
			answer, err := e.client.Post(e.URL, "application/json", io.MultiReader(strings.NewReader(large))) // chunked
			if err != nil {
				done <- 0
				return
			}
			_ = answer.Body.Close()
			done <- answer.StatusCode
		}()
		<-arrived
	}
	answer := e.post(t, strings.NewReader(large), nil)
	if got := text(t, answer.Body); answer.StatusCode != http.StatusServiceUnavailable || got != string(apierr.ReasonUnavailable) {
		t.Errorf("a third large body: %d %s", answer.StatusCode, got)
	}
	close(release)
	for range 2 {
		if status := <-done; status != http.StatusOK {
			t.Errorf("a large body within the bound: %d", status)
		}
	}
	for range 3 { // the places are free again
		if answer := e.post(t, strings.NewReader(large), nil); answer.StatusCode != http.StatusOK {
			t.Errorf("afterwards: %d", answer.StatusCode)
		}
		<-arrived
	}
	if answer := e.post(t, strings.NewReader("{}"), nil); answer.StatusCode != http.StatusOK {
		t.Errorf("a small one: %d", answer.StatusCode)
	}
}
