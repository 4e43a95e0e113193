package redis_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/redis"
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

// Two replicas over a real server, hammered by many at once.
func TestReplicasShareALimit(t *testing.T) {
	client := testkit.Redis(t)
	bound := limit.Limit{Requests: 500, Window: time.Hour, Burst: 500}
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
					if _, err := x.Take(ctx, limit.Bucket{Name: "key 1", Limit: bound}, limit.Bucket{}); err == nil {
						admitted.Add(1)
					}
				}
			})
		}
	}
	callers.Wait()
	stop()
	loops.Wait()
	const leases = 2 * 10
	if got := admitted.Load(); got < 500 || got > 500+leases {
		t.Errorf("%d admitted, want 500 to %d", got, 500+leases)
	}
}
