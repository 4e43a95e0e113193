package main

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"switchyard.dev/deploy/load/drive"
	"switchyard.dev/deploy/load/proc"
)

// held is the offered rate of a long run, in deliveries a second.
const held = 3000

// holdLines is the number of lines of a hold's table: one for each minute of a hold of ten minutes.
const holdLines, longestLine = 10, time.Minute

// holding is the state of a running hold.
type holding struct {
	rig          *webhookRig
	w            *tabwriter.Writer
	began        time.Time
	start        moment
	last         moment
	enteredFirst int64
	arrived      *hdrhistogram.Histogram
}

// moment holds the progress of a hold.
type moment struct {
	at      time.Time
	entered int64
	arrived int64
	spent   spending
}

// hold offers the rate for a long time and records what waits: if it grew or aged, the service would not keep up.
func (r *webhookRig) hold(ctx context.Context, plan webhookPlan, out io.Writer) error {
	if plan.hold == 0 {
		return nil
	}
	if _, err := r.tally(ctx); err != nil { // drops the ages of before
		return err
	}
	load, face := r.http(drive.Load{Connections: 128, Rate: held, Time: plan.hold}), "HTTP"
	if plan.grpc {
		load, face = r.streams(8, held, plan.hold), "gRPC"
	}
	h := &holding{rig: r, w: titled(out, fmt.Sprintf("%d deliveries a second offered over %s for %s", held, face, plan.hold)), arrived: newAges()}
	h.enteredFirst = r.accepted.Load()
	h.start = h.now(ctx)
	h.began, h.last = h.start.at, h.start
	defer func() { _ = h.w.Flush() }()
	printf(h.w, "after\taccepted/s\tarrived/s\tage p50\tage p99\tqueue rows\toldest\t%sRSS MiB\t\n", costHead)
	result, err := h.watch(ctx, load, min(max(plan.hold/holdLines, time.Second), longestLine))
	if err != nil {
		return err
	}
	h.summary(ctx, result)
	return nil
}

// watch makes the load, with a line at each interval, and waits for the last arrivals.
func (h *holding) watch(ctx context.Context, load offer, interval time.Duration) (*drive.Result, error) {
	var result *drive.Result
	done := make(chan error, 1)
	go func() {
		var err error
		result, err = load(ctx)
		done <- err
	}()
	every := time.NewTicker(interval)
	defer every.Stop()
	for {
		select {
		case err := <-done:
			if err != nil {
				return nil, err
			}
			return result, h.rig.await(ctx, h.arrived, result.Done())
		case <-every.C:
			if err := h.line(ctx); err != nil {
				return nil, err
			}
		}
	}
}

func (h *holding) now(ctx context.Context) moment {
	return moment{time.Now(), h.rig.accepted.Load() - h.enteredFirst, h.arrived.TotalCount(), h.rig.spent(ctx)}
}

// line prints an interval and what waits at its end.
func (h *holding) line(ctx context.Context) error {
	tally, err := h.rig.tally(ctx)
	if err != nil {
		return err
	}
	ages := newAges()
	note(ages, tally.Ages)
	h.arrived.Merge(ages)
	var rows int
	var oldest float64
	// Rows that an earlier measurement left parked don't count.
	const waiting = "SELECT count(*), coalesce(extract(epoch FROM now() - min(created_at)), 0)::float8 FROM webhook.delivery_queue WHERE created_at >= $1"
	if err := h.rig.db.QueryRow(ctx, waiting, h.began).Scan(&rows, &oldest); err != nil {
		return err
	}
	now := h.now(ctx)
	seconds, arrived := now.at.Sub(h.last.at).Seconds(), now.arrived-h.last.arrived
	rss, err := proc.RSS(h.rig.service)
	p50, p99 := quantiles(ages)
	printf(h.w, "%s\t%.0f\t%.0f\t%s\t%s\t%d\t%.2f s\t%s%d\t\n", now.at.Sub(h.began).Round(time.Second),
		float64(now.entered-h.last.entered)/seconds, float64(arrived)/seconds, p50, p99, rows, oldest,
		now.spent.since(h.last.spent).each(int(arrived)), rss>>20)
	h.last = now
	return err
}

// summary prints the figures of the whole hold.
func (h *holding) summary(ctx context.Context, result *drive.Result) {
	now := h.now(ctx)
	elapsed := now.at.Sub(h.began)
	p50, p99 := quantiles(h.arrived)
	printf(h.w, "all\t%.0f\t%.0f\t%s\t%s\t\t\t%s\t\n", result.PerSecond(), float64(result.Done())/elapsed.Seconds(), p50, p99,
		now.spent.since(h.start.spent).each(result.Done()))
	_ = h.w.Flush()
	enqueue50, enqueue99 := quantiles(result.Latency)
	printf(h.w, "enqueue p50\tenqueue p99\tfailed\tdelivered in all\t\n")
	printf(h.w, "%s\t%s\t%d\t%d\t\n", enqueue50, enqueue99, result.Failed, result.Done())
	if result.Failure != nil {
		h.rig.progress("  failed: %v", result.Failure)
	}
}
