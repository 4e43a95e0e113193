package redis_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/redis"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

func TestSettle(t *testing.T) {
	client := testkit.Redis(t)
	fleet := redis.NewLimits(client)
	// A server that was restarted knows no script.
	if err := client.ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	spent := []limit.Spending{{Name: "key a:b", Cost: 10 * time.Second}, {Name: "organization ä", Cost: time.Hour}}
	for i := range 3 {
		ahead, err := fleet.Settle(t.Context(), spent)
		if err != nil {
			t.Fatal(err)
		}
		for j, want := range []time.Duration{10 * time.Second, time.Hour} {
			want *= time.Duration(i + 1)
			if ahead[j] > want || ahead[j] < want-5*time.Second {
				t.Errorf("%d: %v ahead, want about %v", i, ahead[j], want)
			}
		}
	}
	left, err := client.PTTL(t.Context(), client.Key("limit", "key a:b")).Result()
	if err != nil || left <= 0 || left > 31*time.Second {
		t.Errorf("the bucket is kept for %v, %v", left, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := fleet.Settle(ctx, spent); err == nil {
		t.Error("settled without a server")
	}
}

// Two replicas over a real server, hammered by many at once, admit a lease each too
// many. A replica goes on alone when a settlement takes longer than callers wait, as it
// may on a busy machine, but not time after time.
func TestReplicasShareALimit(t *testing.T) {
	const burst, leases, rounds = 500, 2 * 10, 5
	client := testkit.Redis(t)
	var admitted int64
	for round := range rounds {
		admitted = admittedByTwo(t, client, limit.Bucket{
			Name: fmt.Sprint("key ", round), Limit: limit.Limit{Requests: burst, Window: time.Hour, Burst: burst},
		})
		if admitted < burst {
			t.Fatalf("%d admitted, want %d at least", admitted, burst)
		}
		if admitted <= burst+leases {
			return
		}
	}
	t.Errorf("%d admitted in the last of %d rounds, want %d to %d", admitted, rounds, burst, burst+leases)
}

// admittedByTwo is how many of 3,200 requests two replicas admit.
func admittedByTwo(t *testing.T, client *redisdb.Client, bucket limit.Bucket) int64 {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var admitted atomic.Int64
	var callers, loops sync.WaitGroup
	for range 2 {
		x := limit.New(redis.NewLimits(client))
		loops.Go(func() { _ = x.Run(ctx, testkit.Logger(t)) })
		for range 8 {
			callers.Go(func() {
				for range 200 {
					if _, err := x.Take(ctx, bucket, limit.Bucket{}); err == nil {
						admitted.Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	stop()
	loops.Wait()
	return admitted.Load()
}
