package dispatch_test

import (
	"bufio"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/netguard"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/delivery"
	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

func newSender(t *testing.T, timeout time.Duration, allowed ...string) *dispatch.HTTP {
	t.Helper()
	offline := &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		return nil, errors.New("no name server in tests")
	}}
	guard, err := netguard.New(netguard.Options{AllowTargets: allowed, Resolver: offline})
	if err != nil {
		t.Fatal(err)
	}
	sender := dispatch.NewHTTP(guard, dispatch.HTTPOptions{Timeout: timeout, PerHost: 4})
	t.Cleanup(sender.Close)
	return sender
}

// hostile serves each connection with handle, after the request's header.
func hostile(t *testing.T, handle func(net.Conn)) string {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() {
				defer conn.Close()
				if _, err := http.ReadRequest(bufio.NewReader(conn)); err == nil {
					handle(conn)
				}
			})
		}
	})
	t.Cleanup(func() { listener.Close(); serving.Wait() })
	return listener.Addr().String()
}

// drip writes a text again and again, slowly, until the other end has had enough.
func drip(conn net.Conn, text string) {
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// reset ends a connection with RST.
func reset(conn net.Conn) {
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
}

// bomb is a gigabyte of zeros, packed again and again.
func bomb() string {
	var packed strings.Builder
	writer := gzip.NewWriter(&packed)
	_, _ = writer.Write(make([]byte, 8<<20))
	_ = writer.Close()
	return packed.String()
}

// forever writes until the other end has had enough.
func forever(conn net.Conn, text string) {
	for {
		if _, err := io.WriteString(conn, text); err != nil {
			return
		}
	}
}

func wait(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) }

func TestHostileTargets(t *testing.T) {
	const timeout = 300 * time.Millisecond
	tests := map[string]struct {
		handle func(net.Conn)
		status int
		fault  delivery.Fault
		cut    bool
	}{
		"says nothing": {wait, 0, delivery.FaultTimeout, false},
		"hangs up":     {func(net.Conn) {}, 0, delivery.FaultReset, false},
		"no HTTP":      {func(c net.Conn) { fmt.Fprint(c, "220 mail.example ESMTP\r\n") }, 0, delivery.FaultResponse, false},
		"endless header": {func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\n")
			forever(c, "X-A: "+strings.Repeat("a", 1000)+"\r\n")
		}, 0, delivery.FaultResponse, false},
		"endless 1xx":     {func(c net.Conn) { forever(c, "HTTP/1.1 103 Early Hints\r\nX-A: b\r\n\r\n") }, 0, delivery.FaultResponse, false},
		"endless body":    {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n"); forever(c, strings.Repeat("a", 1000)) }, 200, "", true},
		"body never ends": {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 500 No\r\nContent-Length: 9\r\n\r\nabc"); wait(c) }, 500, "", true},
		"body breaks off": {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc") }, 200, "", true},
		"slow header":     {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\n"); drip(c, "X-A: b\r\n") }, 0, delivery.FaultTimeout, false},
		"slow status":     {func(c net.Conn) { drip(c, "H") }, 0, delivery.FaultTimeout, false},
		"slow body":       {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\n\r\n"); drip(c, "a") }, 200, "", true},
		"slow chunks": {func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n")
			drip(c, "1\r\na\r\n")
		}, 200, "", true},
		"slow 1xx":          {func(c net.Conn) { drip(c, "HTTP/1.1 102 Processing\r\n\r\n") }, 0, delivery.FaultTimeout, false},
		"reset":             {reset, 0, delivery.FaultReset, false},
		"reset in the body": {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nabc"); reset(c) }, 200, "", true},
		"half close": {func(c net.Conn) {
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.CloseWrite()
			}
			wait(c)
		}, 0, delivery.FaultReset, false},
		"redirect to itself": {func(c net.Conn) {
			fmt.Fprintf(c, "HTTP/1.1 307 Again\r\nLocation: http://%s/\r\nContent-Length: 0\r\n\r\n", c.LocalAddr())
		}, 307, "", false},
		"length that is a lie": {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 99999999999999\r\n\r\nabc") }, 200, "", true},
		"two lengths":          {func(c net.Conn) { fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab") }, 0, delivery.FaultResponse, false},
		"gzip bomb": {func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\n\r\n")
			for packed := bomb(); ; {
				if _, err := io.WriteString(c, packed); err != nil {
					return
				}
			}
		}, 200, "", true},
		"gzip is not read": {func(c net.Conn) {
			fmt.Fprint(c, "HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc")
		}, 200, "", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			addr := hostile(t, tt.handle)
			sender := newSender(t, timeout, addr)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			reply := sender.Send(t.Context(), dispatch.Request{URL: "http://" + addr, Body: []byte("{}")})
			runtime.ReadMemStats(&after)
			sender.Close()
			if used := after.TotalAlloc - before.TotalAlloc; used > 24<<20 { // what the target itself makes here included
				t.Errorf("used %d bytes", used)
			}
			if reply.Status != tt.status {
				t.Errorf("status %d, want %d", reply.Status, tt.status)
			}
			if reply.Fault != tt.fault {
				t.Errorf("fault %q (%v), want %q", reply.Fault, reply.Err, tt.fault)
			}
			if n := len(reply.Body); reply.Truncated != tt.cut || n > 64<<10 {
				t.Errorf("truncated %t with %d bytes, want %t", reply.Truncated, n, tt.cut)
			}
		})
	}
}

func TestFaultsOfConnecting(t *testing.T) {
	secure := httptest.NewTLSServer(http.NotFoundHandler())
	defer secure.Close()
	secure.Config.ErrorLog = nil
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := listener.Addr().String()
	listener.Close()
	for name, tt := range map[string]struct {
		url   string
		fault delivery.Fault
	}{
		"nobody listens":      {"http://" + closed, delivery.FaultConnect},
		"unknown certificate": {secure.URL, delivery.FaultTLS},
		"loopback":            {"http://127.0.0.2:8080", delivery.FaultTarget},
		"metadata":            {"http://169.254.169.254", delivery.FaultTarget},
		"local name":          {"http://localhost:8080", delivery.FaultTarget},
		"unknown name":        {"http://customer.example.com/", delivery.FaultDNS},
	} {
		t.Run(name, func(t *testing.T) {
			sender := newSender(t, 5*time.Second, closed, secure.Listener.Addr().String())
			reply := sender.Send(t.Context(), dispatch.Request{URL: tt.url, Body: []byte("{}")})
			if reply.Status != 0 || reply.Fault != tt.fault {
				t.Errorf("status %d, fault %q, want %q (%v)", reply.Status, reply.Fault, tt.fault, reply.Err)
			}
		})
	}
}

// A target that takes the connection and never shakes hands holds it no longer than
// the request may take.
func TestTLSStalls(t *testing.T) {
	const timeout = 300 * time.Millisecond
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close() // the kernel accepts connections, no code reads from them
	reply := newSender(t, timeout, listener.Addr().String()).Send(t.Context(), dispatch.Request{URL: "https://" + listener.Addr().String(), Body: []byte("{}")})
	if reply.Status != 0 || reply.Fault != delivery.FaultTimeout {
		t.Errorf("status %d, fault %q (%v)", reply.Status, reply.Fault, reply.Err)
	}
}

// The URL may hold a credential, and the error goes to the log.
func TestErrorsDontHoldTheURL(t *testing.T) {
	const canary = "canary-token-8191"
	closed := hostile(t, func(net.Conn) {})
	sender := newSender(t, time.Second, closed)
	for _, url := range []string{
		"http://" + closed + "/" + canary, "http://10.0.0.1/" + canary, "http://unresolvable.example.com/?k=" + canary, "http://a b/" + canary,
	} {
		reply := sender.Send(t.Context(), dispatch.Request{URL: url})
		if reply.Err == nil {
			t.Fatalf("%s: no error, so the test shows nothing", url)
		}
		testkit.NoLeak(t, canary, reply.Err.Error())
	}
}
