package breaker_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"switchyard.dev/services/notify/internal/breaker"
	"switchyard.dev/services/notify/internal/shared"
	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
)

// BenchmarkCircuitSize reports the bytes that a failing circuit takes in Redis, with its key, and in a replica's memory: a
// lane's, and a host's with the most answers that a state holds together with a lane's.
func BenchmarkCircuitSize(b *testing.B) {
	const circuits = 2_000
	for name, fail := range map[string]func(all *breaker.Breaker, i int){
		"lane": func(all *breaker.Breaker, i int) {
			for range 5 {
				all.Report(b.Context(), "https://hooks.example.com org_0123456789abcdef", fmt.Sprint("lane ", i), false, true, 0)
			}
		},
		"host-and-lane": func(all *breaker.Breaker, i int) {
			host := fmt.Sprintf("https://hooks.customer-%d.example.com org_0123456789abcdef", i)
			for lane := range 9 {
				all.Report(b.Context(), host, fmt.Sprint(lane), lane == 8, false, 0)
			}
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				client, now := testkit.Redis(b), time.Now()
				states := shared.New(shared.Options{
					Store: redisdb.NewKV(client, "breaker"), Merge: breaker.Merge, Life: breaker.Life,
					Log: slog.New(slog.DiscardHandler), Now: func() time.Time { return now },
				})
				all := breaker.New(states, breaker.Policy{Failures: 5, Pause: 10 * time.Second, MaxPause: 10 * time.Minute},
					func() time.Time { return now }, func() float64 { return 0.5 })
				before, heap := testkit.RedisMemory(b, client), testkit.HeapSize()
				for i := range circuits {
					fail(all, i)
				}
				b.ReportMetric(float64(testkit.RedisMemory(b, client)-before)/circuits, "B/circuit,Redis")
				b.ReportMetric(float64(testkit.HeapSize()-heap)/circuits, "B/circuit,memory")
				runtime.KeepAlive(states)
			}
		})
	}
}
