package netguard

import (
	"bufio"
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/tunnel"
)

// connectProxy is an egress proxy that records the targets requested of it.
type connectProxy struct {
	net.Listener

	mu     sync.Mutex
	asked  []string
	auth   []string
	answer string // sent instead of connecting, if not empty
}

func newConnectProxy(t *testing.T) *connectProxy {
	t.Helper()
	l, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &connectProxy{Listener: l}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(conn) })
		}
	})
	t.Cleanup(func() { l.Close(); serving.Wait() })
	return p
}

func (p *connectProxy) serve(conn net.Conn) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked, p.auth = append(p.asked, request.Method+" "+request.Host), append(p.auth, request.Header.Get("Proxy-Authorization"))
	answer := p.answer
	p.mu.Unlock()
	if answer != "" {
		_, _ = io.WriteString(conn, answer)
		return
	}
	up, err := net.Dial("tcp", request.Host)
	if err != nil {
		_, _ = io.WriteString(conn, "HTTP/1.1 502 No\r\n\r\n")
		return
	}
	defer up.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connected\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(up, conn); up.Close() })
	_, _ = io.Copy(conn, up)
	conn.Close()
	both.Wait()
}

func (p *connectProxy) open(t *testing.T, user string) *tunnel.Proxy {
	t.Helper()
	return open(t, "http://"+user+p.Addr().String())
}

func open(t *testing.T, raw string) *tunnel.Proxy {
	t.Helper()
	u, err := url.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	p, err := tunnel.New(u, nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestProxyIsAskedForTheAddress(t *testing.T) {
	t.Parallel()
	for name, secure := range map[string]bool{"http": false, "https": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
			if secure {
				s.StartTLS()
			} else {
				s.Start()
			}
			t.Cleanup(s.Close)
			_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
			resolver, _ := newResolver(t, map[string][][]netip.Addr{"example.com.": {{loopback}}})
			p := newConnectProxy(t)
			g := newGuard(t, Options{
				Resolver: resolver, Proxy: p.open(t, "user:canary-password@"),
				AllowTargets: []string{"127.0.0.1:" + port, "example.com:" + port},
			})
			o := TransportOptions{}
			if secure {
				o.RootCAs = x509.NewCertPool()
				o.RootCAs.AddCert(s.Certificate())
			}
			c := g.Client(10*time.Second, o)
			t.Cleanup(c.CloseIdleConnections)
			got, err := get(t, c, name+"://example.com:"+port+"/")
			if err != nil || string(got.body) != "example.com:"+port {
				t.Fatalf("%q, %v", got.body, err)
			}
			if want := "CONNECT 127.0.0.1:" + port; len(p.asked) != 1 || p.asked[0] != want {
				t.Errorf("asked for %q, want %q", p.asked, want)
			}
			if p.auth[0] != "Basic dXNlcjpjYW5hcnktcGFzc3dvcmQ=" {
				t.Errorf("authorization %q", p.auth[0])
			}
		})
	}
}

// The guard decides before the proxy is contacted.
func TestProxyIsNotAskedForForbiddenTargets(t *testing.T) {
	t.Parallel()
	resolver, _ := newResolver(t, map[string][][]netip.Addr{
		"evil.example.com.":   {{metadata}},
		"rebind.example.com.": {{public}, {loopback}},
		"mixed.example.com.":  {{private, loopback}},
	})
	p := newConnectProxy(t)
	g := newGuard(t, Options{Resolver: resolver, Proxy: p.open(t, "")})
	u, err := g.CheckURL("http://rebind.example.com:8080/")
	if err != nil || g.CheckHost(t.Context(), u) != nil {
		t.Fatalf("the first look-up is public: %v", err)
	}
	for _, host := range []string{"127.0.0.1", "[::1]", "169.254.169.254", "10.0.0.1", "evil.example.com", "rebind.example.com", "mixed.example.com", "localhost"} {
		conn, err := g.DialContext(t.Context(), "tcp", host+":8080")
		if err == nil {
			conn.Close()
		}
		if ruleOf(err) != RuleAddress && ruleOf(err) != RuleLocalName {
			t.Errorf("%s: %v", host, err)
		}
	}
	if len(p.asked) != 0 {
		t.Errorf("the proxy was asked for %q", p.asked)
	}
}

func TestProxyFailures(t *testing.T) {
	t.Parallel()
	closed, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed.Close()
	for name, tt := range map[string]struct {
		answer string
		ours   bool
	}{
		"wants a password":   {"HTTP/1.1 407 Who\r\n\r\n", true},
		"forbids":            {"HTTP/1.1 403 No\r\n\r\n", true},
		"can't connect":      {"HTTP/1.1 502 No\r\n\r\n", false},
		"is no proxy":        {"220 mail.example ESMTP\r\n", true},
		"hangs up":           {" ", true},
		"speaks out of turn": {"HTTP/1.1 200 OK\r\n\r\nHTTP/1.1 200 OK\r\n\r\n", true},
		"endless header":     {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X-A: b\r\n", 10_000) + "\r\n", true},
		"is away":            {"", true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newConnectProxy(t)
			p.answer = tt.answer
			proxy := p.open(t, "user:canary-password@")
			if tt.answer == "" {
				proxy = open(t, "http://"+closed.Addr().String())
			}
			g := newGuard(t, Options{Proxy: proxy, AllowTargets: []string{"127.0.0.1:1"}})
			conn, err := g.DialContext(t.Context(), "tcp", "127.0.0.1:1")
			if err == nil {
				conn.Close()
				t.Fatal("connected")
			}
			if errors.Is(err, ErrProxy) != tt.ours || strings.Contains(err.Error(), "canary") {
				t.Errorf("err = %v", err)
			}
		})
	}
}

// A cancelled request doesn't wait for a proxy that doesn't answer.
func TestProxyThatHangs(t *testing.T) {
	t.Parallel()
	l, _ := canary(t)
	g := newGuard(t, Options{Proxy: open(t, "http://"+l.Addr().String()), AllowTargets: []string{"127.0.0.1:1"}})
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if conn, err := g.DialContext(ctx, "tcp", "127.0.0.1:1"); err == nil {
		conn.Close()
		t.Error("connected")
	}
}

// No URL of the table that names an internal target leads to a connection, in whatever way it is sent.
func TestTableAtTheDial(t *testing.T) {
	t.Parallel()
	resolver, _ := newResolver(t, map[string][][]netip.Addr{})
	c := newGuard(t, Options{Resolver: resolver}).Client(5*time.Second, TransportOptions{})
	tried := 0
	for _, tt := range urlCases(t) {
		switch tt.rule {
		case RuleAddress, RuleNumericHost, RuleLocalName, RuleZone, RuleHost:
		default:
			continue
		}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, tt.raw, http.NoBody)
		if err != nil {
			continue // net/http doesn't accept it as a URL.
		}
		tried++
		response, err := c.Do(request)
		if err == nil {
			response.Body.Close()
			t.Errorf("%q: status %d", tt.raw, response.StatusCode)
		}
	}
	if tried < 80 {
		t.Errorf("only %d forms were tried", tried)
	}
}
