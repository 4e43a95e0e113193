package main

import (
	"context"
	"fmt"
	"io"
	"time"
)

// dueBacklog waits in the store for sixteen tenants: no replica has it in memory, so that all of it is claimed from
// the store.
var dueBacklog = backlog{prefix: "org_due_", organizations: 16, path: "/hook"}

// topUp is the interval at which delivered rows are replaced.
const topUp = 200 * time.Millisecond

// due measures the delivery rate of backlogs. It keeps each at its size meanwhile: delivered rows are replaced by
// SQL, which costs the same at every size.
func (r *webhookRig) due(ctx context.Context, plan webhookPlan, out io.Writer) error {
	if len(plan.due) == 0 {
		return nil
	}
	if err := r.makeFlows(ctx, dueBacklog); err != nil {
		return err
	}
	w := titled(out, "Due backlogs, worked off by claims and kept at their size")
	defer func() { _ = w.Flush() }()
	printf(w, "due rows\tdelivered/s\tof the first\tCPU-s/10k service\tCPU-s/10k Postgres\tWAL bytes each\trows read each\trows written each\tblocks each\t\n")
	var first float64
	for i, size := range plan.due {
		if err := r.fillDue(ctx, size); err != nil {
			return err
		}
		f, err := r.drainDue(ctx, plan.time)
		if err != nil {
			return fmt.Errorf("%d due: %w", size, err)
		}
		if i == 0 {
			first = f.perSecond
		}
		printf(w, "%d\t%.0f\t%.2fx\t%.1f\t%.1f\t%.0f\t%.1f\t%.1f\t%.1f\t\n", size, f.perSecond, f.perSecond/first,
			f.cost.service.Seconds()/f.n*10_000, f.cost.postgres.Seconds()/f.n*10_000, float64(f.cost.wal)/f.n,
			float64(f.work.read)/f.n, float64(f.work.written)/f.n, float64(f.work.blocks)/f.n)
	}
	return nil
}

// settling is the rest between filling a backlog and delivering it.
const settling = 5 * time.Second

// fillDue brings the backlog to a size.
func (r *webhookRig) fillDue(ctx context.Context, size int) error {
	var there int
	const count = `SELECT count(*) FROM webhook.flow f JOIN webhook.delivery_queue q USING (flow_id) WHERE f.organization_id LIKE $1 || '%'`
	if err := r.db.QueryRow(ctx, count, dueBacklog.prefix).Scan(&there); err != nil {
		return fmt.Errorf("count the backlog: %w", err)
	}
	started := time.Now()
	if err := r.seed(ctx, dueBacklog, size-there); err != nil {
		return err
	}
	for _, settle := range []string{"VACUUM ANALYZE webhook.delivery_queue", "CHECKPOINT"} {
		if _, err := r.db.Exec(ctx, settle); err != nil {
			return err
		}
	}
	r.progress("%d rows are due, after %s", size, time.Since(started).Round(time.Second))
	time.Sleep(settling)
	return nil
}

// drained holds the figures of a backlog.
type drained struct {
	perSecond, n float64
	cost         spending
	work         work
}

// warmUp is left out of the figures: the first claims after a rest.
const warmUp = 2 * time.Second

func (r *webhookRig) drainDue(ctx context.Context, d time.Duration) (f drained, err error) {
	if err := r.release(ctx, dueBacklog); err != nil {
		return f, err
	}
	if err := r.keepFull(ctx, warmUp); err != nil {
		return f, err
	}
	before, err := r.tally(ctx)
	if err != nil {
		return f, err
	}
	work, err := r.worked(ctx, ".")
	if err != nil {
		return f, err
	}
	spent, started := r.spent(ctx), time.Now()
	if err := r.keepFull(ctx, d); err != nil {
		return f, err
	}
	after, err := r.tally(ctx)
	if err != nil {
		return f, err
	}
	f.n = float64(after.Got - before.Got)
	f.perSecond, f.cost = f.n/time.Since(started).Seconds(), r.spent(ctx).since(spent)
	now, err := r.worked(ctx, ".")
	f.work = now.since(work)
	if err != nil {
		return f, err
	}
	r.progress("%.0f deliveries were measured", f.n)
	return f, r.stop(ctx, dueBacklog)
}

// keepFull replaces for a while what arrives.
func (r *webhookRig) keepFull(ctx context.Context, d time.Duration) error {
	last, err := r.tally(ctx)
	if err != nil {
		return err
	}
	tick := time.NewTicker(topUp)
	defer tick.Stop()
	for end := time.Now().Add(d); time.Now().Before(end); <-tick.C {
		now, err := r.tally(ctx)
		if err != nil {
			return err
		}
		if err := r.seed(ctx, dueBacklog, now.Got-last.Got); err != nil {
			return err
		}
		last = now
	}
	return nil
}
