package testkit

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
)

// Free ports are taken from below the range in which systems place outgoing connections (32768 and up) and the local
// stack's own (20000 and up), so that on a busy machine no other process gets one before the test listens on it.
const lowestPort, ports = 10_000, 10_000

// nextPort is the port to try next. Processes that run at the same time begin at different ones.
var nextPort = struct {
	sync.Mutex

	number int
}{number: os.Getpid() * 100 % ports}

// FreeAddress returns a host:port on loopback on which no process listens. It returns the same one again only after
// thousands of others.
func FreeAddress(tb testing.TB) string {
	tb.Helper()
	nextPort.Lock()
	defer nextPort.Unlock()
	for range ports {
		address := fmt.Sprint("127.0.0.1:", lowestPort+nextPort.number)
		nextPort.number = (nextPort.number + 1) % ports
		if listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", address); err == nil {
			_ = listener.Close()
			return address
		}
	}
	tb.Fatal("no port of loopback is free")
	return ""
}

func listen(tb testing.TB) net.Listener {
	tb.Helper()
	listener, err := new(net.ListenConfig).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	return listener
}

// Dial serves gRPC on loopback and returns a connection to it. Both are closed at the end of the test.
func Dial(tb testing.TB, server *grpc.Server) *grpc.ClientConn {
	tb.Helper()
	listener := listen(tb)
	var serving sync.WaitGroup
	serving.Go(func() { _ = server.Serve(listener) })
	tb.Cleanup(func() {
		server.Stop()
		serving.Wait()
	})
	conn, err := grpc.NewClient(listener.Addr().String(), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// Cable relays TCP connections to a server until the test interrupts it.
type Cable struct {
	// URL is the server's URL with the address of the cable.
	URL string

	server string // host:port
	mu     sync.Mutex
	down   bool
	conns  []net.Conn
}

// NewCable returns a cable to the server of the URL, which must contain a host and a port. It is closed at the end of
// the test.
func NewCable(tb testing.TB, serverURL string) *Cable {
	tb.Helper()
	u, err := url.Parse(serverURL)
	if err != nil {
		tb.Fatal(err)
	}
	listener := listen(tb)
	c := &Cable{server: u.Host}
	u.Host = listener.Addr().String()
	c.URL = u.String()
	ctx := context.WithoutCancel(tb.Context())
	var relays sync.WaitGroup
	relays.Go(func() {
		for {
			near, err := listener.Accept()
			if err != nil {
				return
			}
			relays.Go(func() { c.relay(ctx, near) })
		}
	})
	tb.Cleanup(func() {
		_ = listener.Close()
		c.Cut()
		relays.Wait()
	})
	return c
}

// Cut closes all connections. New ones are closed at once until Mend.
func (c *Cable) Cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// Mend lets connections through again.
func (c *Cable) Mend() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.down = false
}

func (c *Cable) relay(ctx context.Context, near net.Conn) {
	defer func() { _ = near.Close() }()
	far, err := new(net.Dialer).DialContext(ctx, "tcp", c.server)
	if err != nil {
		return
	}
	defer func() { _ = far.Close() }()
	if !c.add(near, far) {
		return
	}
	var back sync.WaitGroup
	back.Go(func() {
		_, _ = io.Copy(far, near)
		_ = far.Close()
	})
	_, _ = io.Copy(near, far)
	_ = near.Close()
	back.Wait()
}

// add registers connections and reports whether they may be used.
func (c *Cable) add(conns ...net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.down {
		c.conns = append(c.conns, conns...)
	}
	return !c.down
}
