package dispatch_test

import (
	"log/slog"
	"strings"
	"testing"

	"switchyard.dev/services/webhook-egress/internal/dispatch"
)

// BenchmarkEndToEnd enqueues durably, signs, sends and settles with an audit
// row; it reports deliveries that have arrived and are settled per second.
func BenchmarkEndToEnd(b *testing.B) {
	r := newReceiver(b, nil)
	w := newWorld(b, r)
	w.log = slog.New(slog.DiscardHandler)
	w.limits = dispatch.LimitsOf(256)
	n := w.start()
	q := request(r)
	q.Payload = []byte(`{"pad":"` + strings.Repeat("x", 1000) + `"}`)
	b.SetParallelism(32)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, err := n.service.Enqueue(b.Context(), q); err != nil {
				b.Error(err)
			}
		}
	})
	until(b, "the queue is empty", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	if got := len(r.perDelivery()); got != b.N {
		b.Errorf("%d of %d arrived", got, b.N)
	}
}
