package breaker_test

import (
	"fmt"
	"log/slog"
	"runtime"
	"testing"
	"time"

	"switchyard.dev/services/platform/redisdb"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/webhook-egress/internal/breaker"
)

// BenchmarkCircuitSize reports the bytes that a failing circuit takes in Redis, with its key, and in a replica's memory:
// an open flow's, and a host's with the most answers that a state holds.
func BenchmarkCircuitSize(b *testing.B) {
	const circuits = 10_000
	for name, report := range map[string]func(i, n int) breaker.Observation{
		"flow": func(i, _ int) breaker.Observation {
			at := breaker.Target{Organization: "org_0123456789abcdef", Host: fmt.Sprintf("hooks.customer-%d.example.com", i), Port: 443, Flow: int64(i + 1)}
			return breaker.Observation{Target: at, Report: breaker.Report{Event: breaker.Failed, Began: time.Now()}}
		},
		"host": func(i, n int) breaker.Observation {
			at := breaker.Target{Organization: "org_0123456789abcdef", Host: fmt.Sprintf("hooks.customer-%d.example.com", i), Port: 443}
			event := breaker.Failed
			if n > 0 {
				event = breaker.Passed
			}
			return breaker.Observation{Target: at, Report: breaker.Report{Event: event, Began: time.Now(), Flow: uint64(1e6*i + n + 1)}}
		},
	} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				client := testkit.Redis(b)
				breakers := breaker.New(breaker.Options{
					Policy: breaker.DefaultPolicy(), Store: redisdb.NewKV(client, "breaker"), Timeout: time.Minute,
					Log: slog.New(slog.DiscardHandler), Now: time.Now, Random: func() float64 { return 0.5 },
				})
				before, heap := testkit.RedisMemory(b, client), testkit.HeapSize()
				for n := range 9 {
					for i := 0; i < circuits; i += 500 {
						var all []breaker.Observation
						for j := range 500 {
							all = append(all, report(i+j, n))
						}
						breakers.Observe(b.Context(), all)
					}
				}
				b.ReportMetric(float64(testkit.RedisMemory(b, client)-before)/circuits, "B/circuit,Redis")
				b.ReportMetric(float64(testkit.HeapSize()-heap)/circuits, "B/circuit,memory")
				runtime.KeepAlive(breakers)
			}
		})
	}
}
