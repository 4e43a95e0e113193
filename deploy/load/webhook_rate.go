package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"text/tabwriter"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/load/client"
	"switchyard.dev/deploy/load/drive"
)

// rates measures deliveries from the enqueue to the arrival, beside the floors.
func (r *webhookRig) rates(ctx context.Context, plan webhookPlan, out io.Writer) error {
	if !plan.rates {
		return nil
	}
	w := titled(out, "Floors")
	printf(w, "floor\tper second\t\n")
	posted, err := bareClient(ctx, r.receiver.url, plan.time/4)
	if err != nil {
		return err
	}
	printf(w, "bare Go client, 64 connections\t%.0f\t\n", posted)
	inserted, err := batchedInserts(ctx, r.db, plan.time/4)
	if err != nil {
		return err
	}
	printf(w, "batched inserts of the same bytes\t%.0f\t\n", inserted)
	_ = w.Flush()

	w = titled(out, "Rates")
	defer func() { _ = w.Flush() }()
	printf(w, "run\t%s\n", runHead)
	return errors.Join(
		r.row(ctx, w, "quiet, 50/s", r.http(drive.Load{Connections: 8, Rate: 50, Time: plan.quiet})),
		r.row(ctx, w, "HTTP, 64 connections", r.http(drive.Load{Connections: 64, Time: plan.time})),
		r.row(ctx, w, "HTTP, 256 connections", r.http(drive.Load{Connections: 256, Time: plan.time})),
		r.row(ctx, w, "through the edge, 64 connections", r.throughEdge(drive.Load{Connections: 64, Time: plan.time})),
		r.row(ctx, w, "HTTP, 3000/s offered", r.http(drive.Load{Connections: 128, Rate: held, Time: plan.time})),
		r.row(ctx, w, "gRPC, 3000/s offered", r.streams(8, held, plan.time)),
		r.row(ctx, w, "gRPC, 8 streams", r.streams(8, 0, plan.time/2)), // what it accepts takes much longer to deliver
	)
}

const runHead = "accepted/s\tend to end/s\tenqueue p50\tenqueue p99\tage p50\tage p99\t" + costHead + "failed\t"

// offer puts load on the service.
type offer func(context.Context) (*drive.Result, error)

// row makes a run and prints its line of the table.
func (r *webhookRig) row(ctx context.Context, w *tabwriter.Writer, name string, load offer) error {
	f, err := r.run(ctx, load)
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	printf(w, "%s\t%.0f\t%.0f\t%s\t%s\t%s\t%s\t%s%d\t\n", name, f.accepted, f.endToEnd,
		f.enqueue50, f.enqueue99, f.age50, f.age99, f.cost, f.failed)
	return nil
}

// request returns a request that enqueues a delivery for an organization.
func (r *webhookRig) request(organization string) (*client.Request, error) {
	return client.NewRequest(r.stack.URL(string(stack.WebhookEgress))+"/v1/deliveries",
		http.Header{"Authorization": {"Bearer " + r.stack.Secrets().Service}, "X-Organization-Id": {organization}}, r.delivery())
}

// delivery returns the body of a request that enqueues a delivery.
func (r *webhookRig) delivery() []byte {
	return fmt.Appendf(nil, `{"url":%q,"event_type":"train.arrived","payload":%s}`, r.receiver.url+"/hook", payload)
}

func (r *webhookRig) isAccepted(a client.Answer) error {
	if a.Status != http.StatusAccepted {
		return fmt.Errorf("status %d: %.200s", a.Status, a.Body)
	}
	r.accepted.Add(1)
	return nil
}

// http returns an offer of load to the JSON face.
func (r *webhookRig) http(load drive.Load) offer {
	return func(ctx context.Context) (_ *drive.Result, err error) {
		if load.Request, err = r.request(stack.Organization); err != nil {
			return nil, err
		}
		load.Check = r.isAccepted
		return drive.Run(ctx, load)
	}
}

// throughEdge returns an offer of load to the edge, by a customer.
func (r *webhookRig) throughEdge(load drive.Load) offer {
	return func(ctx context.Context) (*drive.Result, error) {
		key, err := r.stack.CreateKey(ctx, stack.Key{Organization: stack.Organization, Product: "webhooks", Permission: "write", Name: "load"})
		if err != nil {
			return nil, err
		}
		load.Request, err = client.NewRequest(r.stack.URL(string(stack.Edge))+"/product/v1/webhooks/deliveries",
			http.Header{"Authorization": {"Bearer " + key}}, r.delivery())
		if err != nil {
			return nil, err
		}
		load.Check = r.isAccepted
		return drive.Run(ctx, load)
	}
}

// dispatched holds the figures of one run.
type dispatched struct {
	accepted, endToEnd                 float64
	enqueue50, enqueue99, age50, age99 time.Duration
	cost                               string // by costHead
	failed                             int
	ages                               *hdrhistogram.Histogram
}

// arrival bounds the wait for what was accepted.
const arrival = 2 * time.Minute

// newAges returns a histogram of ages on arrival up to an hour, in microseconds.
func newAges() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, int64(time.Hour/time.Microsecond), 3)
}

// run enqueues what is offered and waits until all has arrived.
func (r *webhookRig) run(ctx context.Context, load offer) (dispatched, error) {
	f := dispatched{ages: newAges()}
	if _, err := r.tally(ctx); err != nil { // drops the ages of before
		return f, err
	}
	spent := r.spent(ctx)
	started := time.Now()
	result, err := load(ctx)
	if err != nil {
		return f, err
	}
	if result.Done() == 0 {
		return f, fmt.Errorf("nothing was accepted: %w", result.Failure)
	}
	if err := r.await(ctx, f.ages, result.Done()); err != nil {
		return f, err
	}
	n := result.Done()
	f.accepted, f.endToEnd, f.failed = result.PerSecond(), float64(n)/time.Since(started).Seconds(), result.Failed
	f.enqueue50, f.enqueue99 = quantiles(result.Latency)
	f.age50, f.age99 = quantiles(f.ages)
	f.cost = r.spent(ctx).since(spent).each(n)
	if result.Failure != nil {
		fmt.Fprintln(os.Stderr, "  failed:", result.Failure)
	}
	return f, nil
}

// await collects the ages of n deliveries.
func (r *webhookRig) await(ctx context.Context, ages *hdrhistogram.Histogram, n int) error {
	deadline, tick := time.Now().Add(arrival), time.NewTicker(10*time.Millisecond)
	defer tick.Stop()
	for {
		now, err := r.tally(ctx)
		if err != nil {
			return err
		}
		note(ages, now.Ages)
		switch {
		case ages.TotalCount() >= int64(n):
			return nil
		case time.Now().After(deadline):
			return fmt.Errorf("%d of %d accepted deliveries arrived", ages.TotalCount(), n)
		}
		<-tick.C
	}
}

func note(ages *hdrhistogram.Histogram, all []int64) {
	for _, age := range all {
		_ = ages.RecordValue(max(age, 1)) // within its range
	}
}
