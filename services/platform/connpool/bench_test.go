package connpool_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/platform/connpool"
	"switchyard.dev/services/platform/testkit/growth"
)

// BenchmarkRoundTrip makes calls of the size of a short completion, in comparison with net/http's own transport. Rare
// calls find the processor in a sleep state: took-ns is the time that their callers wait. cpu-ns/op is the processor
// time of client and server together.
func BenchmarkRoundTrip(b *testing.B) {
	text := strings.Repeat("x", 900)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		_, _ = io.WriteString(w, text)
	}))
	b.Cleanup(server.Close)
	pool, standard := connpool.New(connpool.Options{}), &http.Transport{MaxIdleConnsPerHost: 64}
	b.Cleanup(pool.CloseIdleConnections)
	b.Cleanup(standard.CloseIdleConnections)
	for name, transport := range map[string]http.RoundTripper{"pool": pool, "net-http": standard} {
		ctx, cancel := context.WithCancel(b.Context()) // Cancellable, like a server's.
		b.Cleanup(cancel)
		call := func() {
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, server.URL, strings.NewReader(text))
			if err != nil {
				b.Fatal(err)
			}
			response, err := transport.RoundTrip(r)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.Copy(io.Discard, response.Body)
			_ = response.Body.Close()
		}
		b.Run("busy/"+name, func(b *testing.B) {
			b.ReportAllocs()
			b.SetParallelism(16)
			begun := growth.ProcessorTime()
			defer func() {
				b.ReportMetric(float64((growth.ProcessorTime()-begun).Nanoseconds())/float64(b.N), "cpu-ns/op")
			}()
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					call()
				}
			})
		})
		b.Run("rare/"+name, func(b *testing.B) {
			var took time.Duration
			next := time.NewTicker(3 * time.Millisecond)
			defer next.Stop()
			for b.Loop() {
				<-next.C
				begun := time.Now()
				call()
				took += time.Since(begun)
			}
			b.ReportMetric(float64(took)/float64(b.N), "took-ns/op")
		})
	}
}
