package sse_test

import (
	"bufio"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/notify/internal/sse"
	"switchyard.dev/services/platform/testkit"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// serve has each request answered by say, on an answer that is begun.
func serve(t *testing.T, secure bool, say func(a *sse.Answer)) *httptest.Server {
	t.Helper()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { say(sse.Begin(w, r)) }))
	if secure {
		server.StartTLS()
	} else {
		server.Start()
	}
	t.Cleanup(server.Close)
	return server
}

// ask sends a request as it is and gives the connection.
func ask(t *testing.T, server *httptest.Server, protocol string) net.Conn {
	t.Helper()
	address := server.Listener.Addr().String()
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	if c, ok := conn.(*net.TCPConn); ok {
		_ = c.SetReadBuffer(4 << 10)
	}
	if server.TLS != nil {
		config := server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com"
		conn = tls.Client(conn, config)
	}
	t.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetDeadline(time.Now().Add(3 * sse.WriteTime)); err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Fprintf(conn, "GET / %s\r\nHost: %s\r\n\r\n", protocol, address); err != nil {
		t.Fatal(err)
	}
	return conn
}

// The bytes of an answer: chunks and a last one over HTTP/1.1, and none over 1.0.
func TestWire(t *testing.T) {
	const chunks, last = "9\r\ndata: 1\n\n\r\na\r\ndata: 22\n\n\r\n", "0\r\n\r\n"
	tests := map[string]struct {
		protocol      string
		secure, whole bool
		want          string
	}{
		"whole":           {"HTTP/1.1", false, true, chunks + last},
		"cut":             {"HTTP/1.1", false, false, chunks},
		"whole, with TLS": {"HTTP/1.1", true, true, chunks + last},
		"cut, with TLS":   {"HTTP/1.1", true, false, chunks},
		"HTTP/1.0":        {"HTTP/1.0", false, true, "data: 1\n\ndata: 22\n\n"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var gone atomic.Int32
			server := serve(t, tt.secure, func(a *sse.Answer) {
				if !a.Detach(func() { gone.Add(1) }) {
					t.Error("not detached")
				}
				if err := errors.Join(a.Write([]byte("data: 1\n\n")), a.Write([]byte("data: 22\n\n"))); err != nil {
					t.Error(err)
				}
				a.Close(tt.whole)
			})
			got, err := io.ReadAll(ask(t, server, tt.protocol))
			if err != nil {
				t.Fatal(err)
			}
			head, body, _ := strings.Cut(string(got), "\r\n\r\n")
			if diff := cmp.Diff(tt.want, body); diff != "" {
				t.Errorf("body (-want +got):\n%s", diff)
			}
			for _, line := range []string{"HTTP/1.1 200 OK", "Content-Type: text/event-stream", "Cache-Control: no-store", "Connection: close"} {
				if tt.protocol == "HTTP/1.1" && !strings.Contains(head+"\r\n", line+"\r\n") {
					t.Errorf("no %q in %s", line, head)
				}
			}
			testkit.Wait(t, "the watcher's end", func() error {
				if n := gone.Load(); n != 1 {
					return fmt.Errorf("called %d times", n)
				}
				return nil
			})
		})
	}
}

// A reverse proxy passes events on as they come, a whole answer as a whole one,
// and one that was cut as cut.
func TestThroughAProxy(t *testing.T) {
	for name, whole := range map[string]bool{"whole": true, "cut": false} {
		t.Run(name, func(t *testing.T) {
			read := make(chan struct{})
			server := serve(t, false, func(a *sse.Answer) {
				a.Detach(func() {})
				_ = a.Write([]byte("data: 1\n\n"))
				<-read
				a.Close(whole)
			})
			target, err := url.Parse(server.URL)
			if err != nil {
				t.Fatal(err)
			}
			proxy := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }})
			t.Cleanup(proxy.Close)
			_, body := get(t, proxy)
			lines := bufio.NewReader(body)
			if line, err := lines.ReadString('\n'); err != nil || line != "data: 1\n" {
				t.Fatalf("%q, %v", line, err)
			}
			close(read)
			_, err = io.ReadAll(lines)
			if whole != (err == nil) {
				t.Errorf("at the end: %v", err)
			}
		})
	}
}

// get asks as a client does, and gives the head and the body of the answer.
func get(t *testing.T, server *httptest.Server) (head http.Response, body io.Reader) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := server.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return http.Response{ProtoMajor: answer.ProtoMajor, Header: answer.Header}, answer.Body
}

// Over HTTP/2 the connection stays with net/http, and with the calls beside.
func TestHTTP2(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a := sse.Begin(w, r)
		if a.Detach(func() {}) {
			t.Error("detached")
		}
		if err := a.Write([]byte("data: 1\n\n")); err != nil {
			t.Error(err)
		}
		a.Close(true)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	head, body := get(t, server)
	text, err := io.ReadAll(body)
	if err != nil {
		t.Fatal(err)
	}
	if head.ProtoMajor != 2 {
		t.Errorf("HTTP/%d, want HTTP/2", head.ProtoMajor)
	}
	if string(text) != "data: 1\n\n" {
		t.Errorf("body %q", text)
	}
	if got := head.Header.Get("Connection"); got != "" {
		t.Errorf("Connection: %q, want none", got)
	}
}

// A client that leaves, or sends data during the answer, is noticed at once.
func TestLeaving(t *testing.T) {
	tests := map[string]func(conn net.Conn) error{
		"closes":        net.Conn.Close,
		"sends no more": func(conn net.Conn) error { return conn.(*net.TCPConn).CloseWrite() },
		"talks": func(conn net.Conn) error {
			_, err := conn.Write(make([]byte, 8<<10))
			return err
		},
	}
	for name, leave := range tests {
		t.Run(name, func(t *testing.T) {
			gone := make(chan struct{})
			server := serve(t, false, func(a *sse.Answer) {
				a.Detach(func() {
					a.Close(true)
					close(gone)
				})
			})
			conn := ask(t, server, "HTTP/1.1")
			if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
				t.Fatal(err)
			}
			if err := leave(conn); err != nil {
				t.Fatal(err)
			}
			select {
			case <-gone:
			case <-time.After(5 * time.Second):
				t.Error("not noticed")
			}
		})
	}
}

// A reader that takes nothing is cut when a write has waited long enough, and the
// kernel keeps nothing for it.
func TestSlowReader(t *testing.T) {
	for name, secure := range map[string]bool{"plain": false, "with TLS": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const size, most = 8 << 10, 512 << 10
			took, sent := make(chan time.Duration, 1), 0
			server := serve(t, secure, func(a *sse.Answer) {
				a.Detach(func() {})
				began := time.Now()
				for sent <= most && a.Write(make([]byte, size)) == nil {
					sent += size
				}
				a.Close(true)
				took <- time.Since(began)
			})
			conn := ask(t, server, "HTTP/1.1")
			if secure {
				if err := conn.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			if d := <-took; d < sse.WriteTime || d > sse.WriteTime+4*time.Second || sent > most {
				t.Errorf("cut after %v and %d bytes", d, sent)
			}
			if _, err := io.Copy(io.Discard, conn); !errors.Is(err, syscall.ECONNRESET) || errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("the reader sees %v", err)
			}
		})
	}
}
