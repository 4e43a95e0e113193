package netguard

import (
	"bytes"
	"compress/gzip"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"
)

type answer struct {
	status, major int
	body          []byte
}

func get(t *testing.T, c *http.Client, url string) (answer, error) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer{resp.StatusCode, resp.ProtoMajor, body}, nil
}

// serveAllowed returns a server on loopback and a client that may reach only it.
func serveAllowed(t *testing.T, h http.HandlerFunc) (url string, c *http.Client) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	g := newGuard(t, Options{AllowTargets: []string{s.Listener.Addr().String()}})
	c = g.Client(10*time.Second, TransportOptions{RootCAs: roots})
	t.Cleanup(c.CloseIdleConnections)
	return s.URL, c
}

func TestClientDoesNotFollowRedirects(t *testing.T) {
	t.Parallel()
	l, _ := canary(t)
	for _, status := range []int{http.StatusMovedPermanently, http.StatusFound, http.StatusTemporaryRedirect} {
		url, c := serveAllowed(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Location", "http://"+l.Addr().String()+"/")
			w.WriteHeader(status)
		})
		got, err := get(t, c, url)
		if err != nil || got.status != status {
			t.Errorf("%d, want %d: %v", got.status, status, err)
		}
	}
	assertUntouched(t, l)
}

func TestClientRefusesForbiddenTargets(t *testing.T) {
	t.Parallel()
	l, port := canary(t)
	resolver, _ := newResolver(t, map[string][][]netip.Addr{"evil.example.com.": {{loopback}}})
	c := newGuard(t, Options{Resolver: resolver}).Client(10*time.Second, TransportOptions{})
	for host, rule := range map[string]string{
		"127.0.0.1":        RuleAddress,
		"127。0。0。1":        RuleAddress,
		"[::1]":            RuleAddress,
		"0.0.0.0":          RuleAddress,
		"localhost":        RuleLocalName,
		"evil.example.com": RuleAddress,
	} {
		_, err := get(t, c, "http://"+host+":"+port+"/")
		if got := ruleOf(err); got != rule {
			t.Errorf("%s: %s, want %s", host, got, rule)
		}
	}
	assertUntouched(t, l)
}

func TestTransportIgnoresProxies(t *testing.T) {
	t.Parallel()
	if newGuard(t, Options{}).Transport(TransportOptions{}).Proxy != nil {
		t.Error("the dial check would see only the proxy")
	}
}

func TestClientSpeaksHTTP2(t *testing.T) {
	t.Parallel()
	url, c := serveAllowed(t, func(http.ResponseWriter, *http.Request) {})
	got, err := get(t, c, url)
	if err != nil || got.major != 2 {
		t.Errorf("HTTP/%d, %v", got.major, err)
	}
}

func TestClientLimitsResponseHeaders(t *testing.T) {
	t.Parallel()
	for size, ok := range map[int]bool{32 << 10: true, 96 << 10: false} {
		url, c := serveAllowed(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X-Filler", strings.Repeat("x", size))
		})
		if _, err := get(t, c, url); (err == nil) != ok {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
}

func TestClientDoesNotUnpack(t *testing.T) {
	t.Parallel()
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	if _, err := z.Write(make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	url, c := serveAllowed(t, func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Get("Accept-Encoding"); got != "" {
			t.Errorf("asked for %s", got)
		}
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(packed.Bytes())
	})
	got, err := get(t, c, url)
	if err != nil || !bytes.Equal(got.body, packed.Bytes()) {
		t.Errorf("%d bytes of body, %v", len(got.body), err)
	}
}

func TestClientKeepsNoCookies(t *testing.T) {
	t.Parallel()
	url, c := serveAllowed(t, func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		if len(r.Cookies()) > 0 {
			w.WriteHeader(http.StatusTeapot)
		}
	})
	for range 2 {
		if got, err := get(t, c, url); err != nil || got.status != http.StatusOK {
			t.Errorf("%d, %v", got.status, err)
		}
	}
}

// A response that changes the protocol has a body without an end, to which no timeout applies: nothing is read of it.
func TestReadStartOfAnotherProtocol(t *testing.T) {
	t.Parallel()
	left := make(chan struct{})
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = buffered.WriteString("HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: other\r\n\r\nhello")
		_ = buffered.Flush()
		<-left
		_ = conn.Close()
	}))
	t.Cleanup(s.Close)
	t.Cleanup(func() { close(left) })
	g := newGuard(t, Options{AllowTargets: []string{s.Listener.Addr().String()}})
	c := g.Client(10*time.Second, TransportOptions{})
	t.Cleanup(c.CloseIdleConnections)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := ReadStart(resp, 1<<10)
	if err != nil {
		t.Errorf("error %v", err)
	}
	if len(text) != 0 {
		t.Errorf("read %q of the other protocol", text)
	}
}
