package main

import (
	"context"
	"fmt"
	"time"
)

// park fills the queue up to a number of rows behind a target that is left
// alone, which the run beside it must not feel. It writes the rows itself: the
// contract has no way to be given millions at once, and nobody reads the
// deliveries that they stand for while the target is parked.
func (y *dispatchYard) park(ctx context.Context, size int) error {
	const prepare = `
		INSERT INTO webhook.flow (organization_id, scheme, host, port, ready_at, state, parked_until, parked_reason)
		SELECT 'org_parked', 'https', 'parked.invalid', 443, 'infinity', 'open', 'infinity', 'breaker_open'
		WHERE NOT EXISTS (SELECT FROM webhook.flow WHERE organization_id = 'org_parked')`
	const fill = `
		INSERT INTO webhook.delivery_queue (delivery_id, created_at, flow_id, due_at, body_bytes)
		SELECT gen_random_uuid(), now(), f.flow_id, now(), 1000
		FROM webhook.flow f, generate_series(1, $1::bigint - (SELECT count(*) FROM webhook.delivery_queue q WHERE q.flow_id = f.flow_id))
		WHERE f.organization_id = 'org_parked'`
	if _, err := y.db.Exec(ctx, prepare); err != nil {
		return fmt.Errorf("make the flow: %w", err)
	}
	started := time.Now()
	if _, err := y.db.Exec(ctx, fill, size); err != nil {
		return fmt.Errorf("fill the queue: %w", err)
	}
	if _, err := y.db.Exec(ctx, "VACUUM ANALYZE webhook.delivery_queue"); err != nil {
		return err
	}
	y.progress("parked %d rows in %s", size, time.Since(started).Round(time.Second))
	return nil
}
