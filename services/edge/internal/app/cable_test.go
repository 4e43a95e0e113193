package app

import (
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"switchyard.dev/services/edge/internal/apikey"
)

type digest = apikey.Digest

// cable is a connection to a server that a test can cut: open connections
// break, and new ones are refused at once.
type cable struct {
	url   string // of the server, through the cable
	mu    sync.Mutex
	off   bool
	conns map[net.Conn]bool
}

func newCable(t *testing.T, serverURL string) *cable {
	t.Helper()
	server, err := url.Parse(serverURL)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{conns: map[net.Conn]bool{}}
	through := *server
	through.Host = listener.Addr().String()
	c.url = through.String()
	t.Cleanup(func() {
		_ = listener.Close()
		c.cut(true)
	})
	go func() {
		for {
			in, err := listener.Accept()
			if err != nil {
				return
			}
			out, err := net.Dial("tcp", server.Host)
			if err != nil || !c.add(in, out) {
				_ = in.Close()
				continue
			}
			go func() { _, _ = io.Copy(out, in); c.drop(in, out) }()
			go func() { _, _ = io.Copy(in, out); c.drop(in, out) }()
		}
	}()
	return c
}

func (c *cable) add(in, out net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off {
		_ = out.Close()
		return false
	}
	c.conns[in], c.conns[out] = true, true
	return true
}

func (c *cable) drop(conns ...net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range conns {
		_ = conn.Close()
		delete(c.conns, conn)
	}
}

func (c *cable) cut(off bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.off = off
	if off {
		for conn := range c.conns {
			_ = conn.Close()
		}
	}
}
