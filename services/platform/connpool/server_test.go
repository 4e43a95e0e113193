package connpool_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// server runs the test's function on each connection.
type server struct {
	url         string
	connections atomic.Int64
}

// peer is the server's side of a connection.
type peer struct {
	net.Conn

	from *bufio.Reader
	out  *coalescer
}

// request reads a complete request and returns its body.
func (p *peer) request() (string, error) {
	r, err := http.ReadRequest(p.from)
	if err != nil {
		return "", err
	}
	body, err := io.ReadAll(r.Body)
	return string(body), err
}

// together writes pieces in one segment, each as its own TLS record.
func (p *peer) together(pieces ...string) error {
	p.out.hold()
	for _, piece := range pieces {
		if _, err := io.WriteString(p.Conn, piece); err != nil {
			return err
		}
	}
	return p.out.release()
}

// coalescer collects writes and sends them at once.
type coalescer struct {
	net.Conn

	mu   sync.Mutex
	held *bytes.Buffer
}

func (c *coalescer) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = new(bytes.Buffer)
}

func (c *coalescer) release() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	text := c.held.Bytes()
	c.held = nil
	_, err := c.Conn.Write(text)
	return err
}

func (c *coalescer) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		return c.held.Write(p)
	}
	return c.Conn.Write(p)
}

// listen starts a server, with TLS if secure is set.
func listen(tb testing.TB, secure *tls.Config, talk func(*peer)) *server {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &server{url: "http://" + listener.Addr().String()}
	if secure != nil {
		s.url = "https://" + listener.Addr().String()
	}
	var all sync.WaitGroup
	ctx, end := context.WithCancel(context.Background())
	all.Go(func() {
		for {
			accepted, err := listener.Accept()
			if err != nil {
				return
			}
			s.connections.Add(1)
			all.Go(func() { s.serve(ctx, accepted, secure, talk) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		end()
		all.Wait()
	})
	return s
}

func (s *server) serve(ctx context.Context, accepted net.Conn, secure *tls.Config, talk func(*peer)) {
	defer context.AfterFunc(ctx, func() { _ = accepted.Close() })()
	defer func() { _ = accepted.Close() }()
	p := &peer{out: &coalescer{Conn: accepted}}
	if p.Conn = p.out; secure != nil {
		p.Conn = tls.Server(p.out, secure)
	}
	p.from = bufio.NewReader(p.Conn)
	talk(p)
}

// certificates returns the TLS configurations of the server and the client.
func certificates(tb testing.TB) (serving, trusting *tls.Config) {
	tb.Helper()
	s := httptest.NewTLSServer(http.NotFoundHandler())
	defer s.Close()
	transport, ok := s.Client().Transport.(*http.Transport)
	if !ok {
		tb.Fatal("the test server's client has another transport")
	}
	trusting = transport.TLSClientConfig.Clone()
	trusting.NextProtos = nil
	return &tls.Config{Certificates: s.TLS.Certificates, MinVersion: tls.VersionTLS12}, trusting
}
