package network_test

import (
	"bufio"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

// proxy is an HTTP proxy that connects everything to one server.
type proxy struct {
	net.Listener

	mu    sync.Mutex
	asked []string
}

func newProxy(t *testing.T, target string) *proxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &proxy{Listener: listener}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			serving.Go(func() { p.serve(conn, target) })
		}
	})
	t.Cleanup(func() { _ = listener.Close(); serving.Wait() })
	return p
}

func (p *proxy) serve(conn net.Conn, target string) {
	defer conn.Close()
	request, err := http.ReadRequest(bufio.NewReader(conn))
	if err != nil {
		return
	}
	p.mu.Lock()
	p.asked = append(p.asked, request.Method+" "+request.Host+" "+request.Header.Get("Proxy-Authorization"))
	p.mu.Unlock()
	up, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer up.Close()
	_, _ = io.WriteString(conn, "HTTP/1.1 200 Connected\r\n\r\n")
	var both sync.WaitGroup
	both.Go(func() { _, _ = io.Copy(up, conn); _ = up.Close() })
	_, _ = io.Copy(conn, up)
	_ = conn.Close()
	both.Wait()
}

func (p *proxy) last() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.asked) == 0 {
		return ""
	}
	return p.asked[len(p.asked)-1]
}

// get makes a call, on a connection of its own, and returns its status and body.
func get(t *testing.T, transport http.RoundTripper, at string) (string, error) {
	t.Helper()
	request := httptest.NewRequestWithContext(t.Context(), http.MethodGet, at, http.NoBody)
	request.Close = true
	response, err := transport.RoundTrip(request)
	if err != nil {
		return "", err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

// A provider is reached the service's way, by its own proxy, or directly; a proxy is asked for the vendor's name.
func TestRoutes(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _, _ = io.WriteString(w, r.Host) }))
	t.Cleanup(server.Close)
	host := server.Listener.Addr().String()
	ours, own := newProxy(t, host), newProxy(t, host)
	dir := t.TempDir()
	credentials, service := filepath.Join(dir, "proxy"), filepath.Join(dir, "service")
	testkit.WriteFile(t, credentials, "ann:pass\n")
	testkit.WriteFile(t, service, "http://fleet:pass@"+ours.Addr().String()+"\n")
	n, err := network.New(network.Options{ConnectTime: time.Second, Proxy: secret.File(service)})
	if err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		route network.Route
		at    string
		by    *proxy
		want  string
	}{
		"the service's way": {network.Route{}, "http://vendor.example", ours, "CONNECT vendor.example:80 Basic ZmxlZXQ6cGFzcw=="},
		"its own proxy": {
			network.Route{Proxy: "http://" + own.Addr().String(), ProxyCredentials: secret.File(credentials)},
			"http://other.example:8080",
			own, "CONNECT other.example:8080 Basic YW5uOnBhc3M=",
		},
		"its own proxy without credentials": {network.Route{Proxy: "http://" + own.Addr().String()}, "http://third.example", own, "CONNECT third.example:80 "},
	} {
		transport, err := n.Transport(tt.route)
		if err != nil {
			t.Fatal(err)
		}
		text, err := get(t, transport, tt.at)
		if err != nil || tt.by.last() != tt.want || !strings.HasSuffix(tt.at, text) {
			t.Errorf("%s: %q, %v; the proxy was asked %q, want %q", name, text, err, tt.by.last(), tt.want)
		}
		if again, _ := n.Transport(tt.route); again != transport {
			t.Errorf("%s: another transport for the same route", name)
		}
	}
	before := ours.last()
	direct, err := n.Transport(network.Route{Direct: true})
	if err != nil {
		t.Fatal(err)
	}
	if text, err := get(t, direct, server.URL); err != nil || text != host || ours.last() != before {
		t.Errorf("directly: %q, %v; the proxy was asked %q", text, err, ours.last())
	}
	conn, err := n.Dial(t.Context(), "tcp", "secrets.example:443")
	if err != nil || ours.last() != "CONNECT secrets.example:443 Basic ZmxlZXQ6cGFzcw==" {
		t.Fatalf("dialed: %v, the proxy was asked %q", err, ours.last())
	}
	_ = conn.Close()
	before = ours.last()
	if conn, err = n.Dial(t.Context(), "tcp", host); err != nil || ours.last() != before {
		t.Fatalf("the machine itself: %v, the proxy was asked %q", err, ours.last())
	}
	_ = conn.Close()
}

// Nothing outside of the allowed networks is dialed, by whichever way and name.
func TestAllowed(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(server.Close)
	_, port, _ := net.SplitHostPort(server.Listener.Addr().String())
	for prefix, allowed := range map[string]bool{"127.0.0.0/8": true, "10.0.0.0/8": false} {
		n, err := network.New(network.Options{ConnectTime: time.Second, Allowed: []netip.Prefix{netip.MustParsePrefix(prefix)}})
		if err != nil {
			t.Fatal(err)
		}
		transport, err := n.Transport(network.Route{})
		if err != nil {
			t.Fatal(err)
		}
		for _, at := range []string{server.URL, "http://localhost:" + port} {
			if _, err := get(t, transport, at); (err == nil) != allowed || !allowed && !errors.Is(err, network.ErrNotAllowed) {
				t.Errorf("%s in %s: err = %v, want it allowed: %t", at, prefix, err, allowed)
			}
		}
		through, err := n.Transport(network.Route{Proxy: "http://" + newProxy(t, server.Listener.Addr().String()).Addr().String()})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := get(t, through, "http://vendor.example"); (err == nil) != allowed {
			t.Errorf("a proxy in %s: err = %v, want it allowed: %t", prefix, err, allowed)
		}
	}
}

// A provider's CA is trusted in place of the machine's.
func TestCA(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }))
	server.Config.ErrorLog = nil
	t.Cleanup(server.Close)
	n, err := network.New(network.Options{ConnectTime: time.Second})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	testkit.WriteFile(t, file, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})))
	for name, tt := range map[string]struct {
		route network.Route
		ok    bool
	}{"the machine's": {network.Route{}, false}, "the provider's": {network.Route{CAFile: file}, true}} {
		transport, err := n.Transport(tt.route)
		if err != nil {
			t.Fatal(err)
		}
		if text, err := get(t, transport, server.URL); (err == nil && text == "hello") != tt.ok {
			t.Errorf("%s CAs: %q, %v; want it trusted: %t", name, text, err, tt.ok)
		}
	}
}

// A route that can't be made names its setting and no secret.
func TestTransportRefuses(t *testing.T) {
	dir := t.TempDir()
	file := func(name, text string) string {
		testkit.WriteFile(t, filepath.Join(dir, name), text)
		return filepath.Join(dir, name)
	}
	n, err := network.New(network.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for want, r := range map[string]network.Route{
		"ca_file: open":                                 {CAFile: filepath.Join(dir, "absent")},
		"holds no certificate":                          {CAFile: file("ca", "canary")},
		"proxy: want an http or https URL":              {Proxy: "http://user:canary@p"},
		"proxy: want http(s)://":                        {Proxy: "ftp://p"},
		"credentials_file: can't be read: secret: open": {Proxy: "http://p", ProxyCredentials: secret.File(filepath.Join(dir, "absent"))},
		"want user:password":                            {Proxy: "http://p", ProxyCredentials: secret.File(file("bare", "canary"))},
	} {
		if _, err := n.Transport(r); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "canary") {
			t.Errorf("%+v: err = %v, want %q without the secret", r, err, want)
		}
	}
	if _, err := network.New(network.Options{Proxy: secret.File(file("socks", "socks5://p"))}); err == nil {
		t.Error("a SOCKS proxy is taken")
	}
}
