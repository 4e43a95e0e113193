package dispatch_test

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/platform/testkit/growth"
)

// BenchmarkEndToEnd enqueues durably, signs, sends and settles with an audit
// row; it reports deliveries that have arrived and are settled per second, and
// the CPU-seconds that ten thousand of them cost here (the receiver and the
// callers included) and in the backends of a Postgres on this machine.
func BenchmarkEndToEnd(b *testing.B) {
	r := newReceiver(b, nil)
	w := newWorld(b, r)
	w.log = slog.New(slog.DiscardHandler)
	w.limits = limitsOf(256)
	n := w.start()
	payload := []byte(`{"pad":"` + strings.Repeat("x", 1000) + `"}`)
	var callers atomic.Int32
	var wal int
	walSince := func() int { return w.count("SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '0/0')::bigint") }
	b.SetParallelism(128)
	wal = walSince()
	own, stores := growth.ProcessorTime(), w.storeCPU(b)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		q := request(r)
		q.Organization, q.Payload = fmt.Sprint("org-", callers.Add(1)%16), payload
		for pb.Next() {
			if _, err := n.service.Enqueue(b.Context(), q); err != nil {
				b.Error(err)
			}
		}
	})
	until(b, "the queue is empty", func() bool { return w.count("SELECT count(*) FROM delivery_queue") == 0 })
	b.StopTimer()
	per10k := 10_000 / float64(b.N)
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
	b.ReportMetric((growth.ProcessorTime()-own).Seconds()*per10k, "own-cpu-s/10k")
	b.ReportMetric((w.storeCPU(b)-stores).Seconds()*per10k, "pg-cpu-s/10k")
	b.ReportMetric(float64(walSince()-wal)/float64(b.N), "wal-B/op")
	if got := len(r.perDelivery()); got != b.N {
		b.Errorf("%d of %d arrived", got, b.N)
	}
}

// storeCPU is what the backends of the pool have used so far; zero when they run
// on another machine.
func (w *world) storeCPU(b *testing.B) time.Duration {
	b.Helper()
	rows, err := w.pool.Query(b.Context(), "SELECT pid FROM pg_stat_activity WHERE application_name = $1", b.Name())
	if err != nil {
		b.Fatal(err)
	}
	defer rows.Close()
	var ticks int64
	for rows.Next() {
		var pid int
		if err := rows.Scan(&pid); err != nil {
			b.Fatal(err)
		}
		text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil {
			continue
		}
		_, rest, _ := strings.Cut(string(text), ") ")
		fields := strings.Fields(rest)
		for _, field := range fields[11:13] { // utime, stime
			n, err := strconv.ParseInt(field, 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			ticks += n
		}
	}
	if err := rows.Err(); err != nil {
		b.Fatal(err)
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}
