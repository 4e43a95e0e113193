package main

import (
	"context"
	"io"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

// held is the rate that is offered for long, deliveries a second.
const held = 3000

// hold offers the rate for a long time and looks at what waits: were it more and
// more, or older and older, the service would not keep up.
func (y *dispatchYard) hold(ctx context.Context, plan webhookPlan, out io.Writer) error {
	if plan.hold == 0 {
		return nil
	}
	if _, err := y.tally(ctx); err != nil {
		return err
	}
	before, began := y.spent(ctx), time.Now()
	done := make(chan error, 1)
	load, face := y.http(drive.Load{Connections: 128, Rate: held, Time: plan.hold}), "HTTP"
	if plan.grpc {
		load, face = y.streams(8, held, plan.hold), "gRPC"
	}
	var result *drive.Result
	go func() {
		var err error
		result, err = load(ctx)
		done <- err
	}()
	w := titled(out, "3,000 deliveries a second offered over "+face+" for "+plan.hold.String())
	defer func() { _ = w.Flush() }()
	printf(w, "after\tarrived/s\tage p50\tage p99\tqueue rows\toldest\tRSS MiB\t\n")
	arrived, every := newAges(), time.NewTicker(max(plan.hold/20, time.Second))
	defer every.Stop()
	for last := began; ; {
		select {
		case err := <-done:
			if err != nil {
				return err
			}
			if err := y.await(ctx, arrived, result.Done()); err != nil {
				return err
			}
			y.holdSummary(ctx, w, result, began, before)
			return nil
		case now := <-every.C:
			if err := y.holdLine(ctx, w, arrived, began, now.Sub(last)); err != nil {
				return err
			}
			last = now
		}
	}
}

// holdLine tells what arrived in an interval and what waits at its end.
func (y *dispatchYard) holdLine(ctx context.Context, w io.Writer, arrived *hdrhistogram.Histogram, began time.Time, interval time.Duration) error {
	now, err := y.tally(ctx)
	if err != nil {
		return err
	}
	ages := newAges()
	note(ages, now.Ages)
	arrived.Merge(ages)
	var rows int
	var oldest float64
	// What an earlier measurement left parked doesn't count.
	const waiting = "SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM webhook.delivery_queue WHERE created_at >= $1"
	err = y.db.QueryRow(ctx, waiting, began).Scan(&rows, &oldest)
	if err != nil {
		return err
	}
	rss, err := proc.RSS(y.service)
	p50, p99 := quantiles(ages)
	printf(w, "%s\t%.0f\t%s\t%s\t%d\t%.2f s\t%d\t\n", time.Since(began).Round(time.Second),
		float64(ages.TotalCount())/interval.Seconds(), p50, p99, rows, oldest, rss>>20)
	return err
}

func (y *dispatchYard) holdSummary(ctx context.Context, w *tabwriter.Writer, result *drive.Result, began time.Time, before spending) {
	_ = w.Flush()
	n, cost := float64(result.Done()), y.spent(ctx).since(before)
	enqueue50, enqueue99 := quantiles(result.Latency)
	printf(w, "accepted/s\tend to end/s\tenqueue p50\tenqueue p99\tCPU-s/10k service\tCPU-s/10k Postgres\tWAL bytes each\tfailed\t\n")
	printf(w, "%.0f\t%.0f\t%s\t%s\t%.1f\t%.1f\t%.0f\t%d\t\n", result.PerSecond(), n/time.Since(began).Seconds(), enqueue50, enqueue99,
		cost.service.Seconds()/n*10_000, cost.postgres.Seconds()/n*10_000, float64(cost.wal)/n, result.Failed)
	if result.Failure != nil {
		y.progress("  failed: %v", result.Failure)
	}
}
