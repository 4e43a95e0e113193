package rate_test

import (
	"context"
	"io"
	"net"
	"net/url"
	"os"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

// cable stands between clients and the real server and can be cut.
type cable struct {
	net.Listener

	mu    sync.Mutex
	conns []net.Conn
}

func newCable(t *testing.T, server string) *cable {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cable{Listener: listener}
	t.Cleanup(func() { _ = c.Close(); c.cut() })
	go func() {
		for {
			near, err := c.Accept()
			if err != nil {
				return
			}
			far, err := new(net.Dialer).DialContext(t.Context(), "tcp", server)
			if err != nil {
				_ = near.Close()
				continue
			}
			c.mu.Lock()
			c.conns = append(c.conns, near, far)
			c.mu.Unlock()
			go func() { _, _ = io.Copy(far, near); _ = far.Close() }()
			go func() { _, _ = io.Copy(near, far); _ = near.Close() }()
		}
	}()
	return c
}

// cut breaks all connections, as a restart of the server does.
func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

// After a restart of Redis, which has forgotten everything and broken every
// connection that was kept, two replicas together keep to the lane's rate at once.
func TestRestartOfTheServer(t *testing.T) {
	prefix := testkit.Redis(t).Prefix
	u, err := url.Parse(os.Getenv("SWITCHYARD_TEST_REDIS_URL"))
	if err != nil {
		t.Fatal(err)
	}
	wire := newCable(t, u.Host)
	u.Host = wire.Addr().String()
	now := time.Now()
	clock := func() time.Time { return now }
	var clients []*redisdb.Client
	for range 2 {
		client, err := redisdb.Open(t.Context(), u.String(), prefix)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = client.Close() })
		clients = append(clients, client)
	}
	a, b := limiter(redisdb.NewKV(clients[0], "rate"), clock), limiter(redisdb.NewKV(clients[1], "rate"), clock)
	for range 2 {
		a.Reserve(t.Context(), "x")
		b.Reserve(t.Context(), "x")
	}
	var warm sync.WaitGroup
	for range 10 {
		for _, client := range clients {
			warm.Go(func() { _ = client.Do(t.Context(), "DEBUG", "SLEEP", "0.01").Err(); _ = client.Ping(t.Context()).Err() })
		}
	}
	warm.Wait()
	if err := clients[0].Del(t.Context(), clients[0].Key("rate", "x")).Err(); err != nil {
		t.Fatal(err)
	}
	wire.cut()
	seen := map[time.Duration]bool{}
	for range 4 {
		for _, l := range []interface {
			Reserve(ctx context.Context, lane string) time.Duration
		}{a, b} {
			wait := l.Reserve(t.Context(), "x").Round(10 * time.Millisecond)
			if seen[wait] || wait < 4*time.Second-10*time.Millisecond && wait != 3*time.Second {
				t.Errorf("the place in %v is given, after %v", wait, seen)
			}
			seen[wait] = true
		}
	}
}
