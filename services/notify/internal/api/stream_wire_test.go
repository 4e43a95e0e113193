package api_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/sse"
	"switchyard.dev/services/platform/testkit"
)

// raw opens ann's stream on a connection of its own, as a peer that takes little,
// and reads its head and first event.
func (b *bench) raw(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	address := b.http.Listener.Addr().String()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetReadBuffer(4 << 10)
	}
	_, err = fmt.Fprintf(conn, "GET /v1/notifications/stream?user_id=ann HTTP/1.1\r\nHost: %s\r\nAuthorization: Bearer svc\r\nX-Organization-Id: acme\r\n\r\n", address)
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(conn, 1<<10)
	for line := ""; line != "event: ready\n"; {
		if line, err = lines.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	return conn, lines
}

func (b *bench) awaitStreams(t *testing.T, want int) {
	t.Helper()
	testkit.Wait(t, "streams", func() error {
		if n := b.feed.Streams(); n != want {
			return fmt.Errorf("%d are open, want %d", n, want)
		}
		return nil
	})
}

// awaitLines waits until so many calls of streams are in the log.
func (b *bench) awaitLines(t *testing.T, want int) {
	t.Helper()
	testkit.Wait(t, "lines of streams", func() error {
		if n := strings.Count(b.log.String(), "InboxService/StreamNotifications"); n != want {
			return fmt.Errorf("%d, want %d", n, want)
		}
		return nil
	})
}

// A peer that stops reading is cut in bounded time and holds a bounded part of what
// piled up for it; another reader of the inbox has all of it meanwhile.
func TestSlowReaderOverTheWire(t *testing.T) {
	b := setup(t)
	slow, lines := b.raw(t)
	quick := b.stream(t, "?user_id=ann")
	quick.want(t, "ready 0 0")
	const events, size = 25, 40_000
	began := time.Now()
	for range events {
		b.notifyUser(t, "ann", strings.Repeat("m", size))
	}
	for n := range events {
		if e, ok := quick.next(t); !ok || e.ID != strconv.Itoa(n+1) {
			t.Fatalf("the quick reader's event %d is %q", n+1, e.ID)
		}
	}
	if n := b.feed.Streams(); n != 2 || time.Since(began) > sse.WriteTime {
		t.Errorf("after %v %d streams are open: the quick reader has waited for the slow one", time.Since(began), n)
	}
	b.awaitStreams(t, 1)
	b.awaitLines(t, 1)
	if err := slow.SetReadDeadline(time.Now().Add(5 * time.Second)); err != nil {
		t.Fatal(err)
	}
	n, err := io.Copy(io.Discard, lines)
	if !errors.Is(err, syscall.ECONNRESET) || n > events*size/2 {
		t.Errorf("the slow reader got %d bytes of %d and %v", n, events*size, err)
	}
}

// A stream that is idle has one goroutine, and callers that leave take all with
// them that theirs held.
func TestLeavingFreesAll(t *testing.T) {
	b := setup(t)
	b.raw(t) // so that all is there that the first one brings
	goroutines := func(most int) {
		t.Helper()
		testkit.Wait(t, "goroutines", func() error {
			if n := runtime.NumGoroutine(); n > most {
				return fmt.Errorf("%d, want %d", n, most)
			}
			return nil
		})
	}
	const streams, spare = 40, 5
	before := runtime.NumGoroutine()
	var conns []net.Conn
	for range streams {
		conn, _ := b.raw(t)
		conns = append(conns, conn)
	}
	b.awaitStreams(t, 1+streams)
	goroutines(before + streams + spare)
	for i, conn := range conns {
		if c, ok := conn.(*net.TCPConn); ok && i%2 == 0 {
			_ = c.SetLinger(0) // it leaves without a word
		}
		_ = conn.Close()
	}
	b.awaitStreams(t, 1)
	goroutines(before + spare)
	b.awaitLines(t, streams)
}
