package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"switchyard.dev/deploy/load/drive"
)

// parked measures beside backlogs of a parked target: their cost when idle and under load.
func (r *webhookRig) parked(ctx context.Context, plan webhookPlan, out io.Writer) error {
	for _, size := range plan.parked {
		if err := r.park(ctx, size); err != nil {
			return fmt.Errorf("park %d: %w", size, err)
		}
		w := titled(out, fmt.Sprintf("%d parked rows", size))
		if err := r.idle(ctx, w, plan.quiet); err != nil {
			return err
		}
		_ = w.Flush()
		printf(w, "run\t%s\n", runHead)
		err := r.row(ctx, w, fmt.Sprintf("HTTP, 64 connections, %d parked", size), r.http(drive.Load{Connections: 64, Time: plan.time}))
		if _ = w.Flush(); err != nil {
			return err
		}
	}
	return nil
}

// queueTables matches the tables whose statistics would show reads of parked rows.
const queueTables = "^(delivery|deliveries|attempts)"

// minIdle is long enough for every loop of the service to have run, and for
// the counters of the sessions before to be in.
const minIdle = 5 * time.Second

// idle measures what the service does with a queue of parked rows alone.
func (r *webhookRig) idle(ctx context.Context, w io.Writer, d time.Duration) error {
	time.Sleep(minIdle)
	before, err := r.worked(ctx, queueTables)
	if err != nil {
		return err
	}
	spent, began := r.spent(ctx), time.Now()
	time.Sleep(d)
	cost, seconds := r.spent(ctx).since(spent), time.Since(began).Seconds()
	after, err := r.worked(ctx, queueTables)
	work := after.since(before)
	printf(w, "idle for\trows read\trows written\tWAL bytes/s\tCPU of the service\t\n")
	printf(w, "%.0f s\t%d\t%d\t%.0f\t%.1f %%\t\n", seconds, work.read, work.written, float64(cost.wal)/seconds, 100*cost.service.Seconds()/seconds)
	return err
}

// park fills the queue up to size rows for a parked target. Meanwhile, the service doesn't read the deliveries of
// these rows.
func (r *webhookRig) park(ctx context.Context, size int) error {
	const prepare = `
		INSERT INTO webhook.flow (organization_id, scheme, host, port, ready_at, state, parked_until, parked_reason)
		SELECT 'org_parked', 'https', 'parked.invalid', 443, 'infinity', 'open', 'infinity', 'breaker_open'
		WHERE NOT EXISTS (SELECT FROM webhook.flow WHERE organization_id = 'org_parked')`
	const fill = `
		INSERT INTO webhook.delivery_queue (delivery_id, created_at, flow_id, due_at, body_bytes)
		SELECT gen_random_uuid(), now(), f.flow_id, now(), 1000
		FROM webhook.flow f, generate_series(1, $1::bigint - (SELECT count(*) FROM webhook.delivery_queue q WHERE q.flow_id = f.flow_id))
		WHERE f.organization_id = 'org_parked'`
	if _, err := r.db.Exec(ctx, prepare); err != nil {
		return fmt.Errorf("make the flow: %w", err)
	}
	started := time.Now()
	if _, err := r.db.Exec(ctx, fill, size); err != nil {
		return fmt.Errorf("fill the queue: %w", err)
	}
	if _, err := r.db.Exec(ctx, "VACUUM ANALYZE webhook.delivery_queue"); err != nil {
		return err
	}
	r.progress("parked %d rows in %s", size, time.Since(started).Round(time.Second))
	return nil
}
