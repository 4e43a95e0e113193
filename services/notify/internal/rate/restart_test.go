package rate_test

import (
	"context"
	"os"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

// After a restart of Redis, which has forgotten everything and broken every
// connection that was kept, two replicas together keep to the lane's rate at once.
func TestRestartOfTheServer(t *testing.T) {
	prefix := testkit.Redis(t).Prefix
	wire := testkit.NewCable(t, os.Getenv("SWITCHYARD_TEST_REDIS_URL"))
	now := time.Now()
	clock := func() time.Time { return now }
	var clients []*redisdb.Client
	for range 2 {
		client, err := redisdb.Open(t.Context(), redisdb.Options{URL: wire.URL, Prefix: prefix})
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
	wire.Cut()
	wire.Mend()
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
