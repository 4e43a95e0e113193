package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"switchyard.dev/deploy/load/drive"
)

// hang is the delay of the receiver's answers at /slow: shorter than the service's timeout, so that the breaker
// doesn't open.
const hang = 10 * time.Second

// hanging is a large backlog of one tenant that is due at a receiver which hangs.
var hanging = backlog{prefix: "org_hangs_", organizations: 1, path: "/slow"}

// fairRate is the other tenant's rate in deliveries a second.
const fairRate = 500

// fairness measures the age on arrival of another tenant's deliveries: alone, beside a tenant whose receiver hangs
// (twice), and alone again.
func (r *webhookRig) fairness(ctx context.Context, plan webhookPlan, out io.Writer) error {
	if !plan.fair {
		return nil
	}
	if err := r.makeFlows(ctx, hanging); err != nil {
		return err
	}
	if err := r.seed(ctx, hanging, 100_000); err != nil {
		return err
	}
	alone, beside := newAges(), newAges()
	for round, ages := range []*hdrhistogram.Histogram{alone, beside, beside, alone} {
		switch round {
		case 1:
			if err := r.hangUp(ctx); err != nil {
				return err
			}
		case 3:
			if err := r.stop(ctx, hanging); err != nil {
				return err
			}
		}
		f, err := r.run(ctx, r.http(drive.Load{Connections: 16, Rate: fairRate, Time: plan.time}))
		if err != nil {
			return fmt.Errorf("fairness: %w", err)
		}
		ages.Merge(f.ages)
	}
	w := titled(out, fmt.Sprintf("A tenant at %d/s beside one with 100,000 due at a receiver that answers after %s", fairRate, hang))
	printf(w, "\tdeliveries\tage p50\tage p99\t\n")
	for _, one := range []struct {
		name string
		ages *hdrhistogram.Histogram
	}{{"alone", alone}, {"beside it", beside}} {
		p50, p99 := quantiles(one.ages)
		printf(w, "%s\t%d\t%s\t%s\t\n", one.name, one.ages.TotalCount(), p50, p99)
	}
	a50, a99 := quantiles(alone)
	b50, b99 := quantiles(beside)
	printf(w, "ratio\t\t%.2fx\t%.2fx\t\n", ratio(b50, a50), ratio(b99, a99))
	return w.Flush()
}

// hangUp releases the backlog and waits until it has its share of the slots.
func (r *webhookRig) hangUp(ctx context.Context) error {
	if err := r.release(ctx, hanging); err != nil {
		return err
	}
	before, err := r.tally(ctx)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for got := 0; err == nil && got < 200; <-tick.C {
		now, failed := r.tally(ctx)
		got, err = now.Got-before.Got, failed
	}
	return err
}
