package main

import (
	"context"
	"fmt"
	"net/url"
	"strings"
	"time"

	"switchyard.dev/deploy/load/client"
)

// Deliveries that a measurement finds in the store: written by SQL, whole, as an enqueue leaves them when there is no
// room in memory. The contract has no way to enqueue millions at once.

// seedPage is how many rows are committed at a time.
const seedPage = 50_000

// backlog is a queue behind some flows of the receiver.
type backlog struct {
	// organizations have a flow each; their names are prefix and a number.
	prefix        string
	organizations int
	path          string // of the receiver
}

// makeFlows creates the flows of a backlog, parked.
func (r *webhookRig) makeFlows(ctx context.Context, b backlog) error {
	to, err := url.Parse(r.receiver.url)
	if err != nil {
		return err
	}
	const flows = `
		INSERT INTO webhook.flow (organization_id, scheme, host, port, ready_at, state, parked_until, parked_reason)
		SELECT $1 || n, 'http', $2, $3::integer, 'infinity', 'open', 'infinity', 'breaker_open' FROM generate_series(1, $4::integer) n
		ON CONFLICT DO NOTHING`
	if _, err := r.db.Exec(ctx, flows, b.prefix, to.Hostname(), to.Port(), b.organizations); err != nil {
		return fmt.Errorf("make flows: %w", err)
	}
	return nil
}

// release unparks the flows of a backlog.
func (r *webhookRig) release(ctx context.Context, b backlog) error {
	_, err := r.db.Exec(ctx, `UPDATE webhook.flow SET state = 'closed', parked_reason = NULL, parked_until = '-infinity', ready_at = now()
		WHERE organization_id LIKE $1 || '%'`, b.prefix)
	return err
}

// stop parks the flows of a backlog and waits until none of its deliveries is in flight.
func (r *webhookRig) stop(ctx context.Context, b backlog) error {
	_, err := r.db.Exec(ctx, `UPDATE webhook.flow SET state = 'open', parked_reason = 'breaker_open', parked_until = 'infinity', ready_at = 'infinity'
		WHERE organization_id LIKE $1 || '%'`, b.prefix)
	deadline, tick := time.Now().Add(arrival), time.NewTicker(100*time.Millisecond)
	defer tick.Stop()
	for leased := 1; err == nil && leased > 0; <-tick.C {
		err = r.db.QueryRow(ctx, "SELECT count(*) FROM webhook.delivery_queue WHERE leased_by IS NOT NULL AND due_at > now()").Scan(&leased)
		if time.Now().After(deadline) {
			return fmt.Errorf("%d deliveries are still under way", leased)
		}
	}
	return err
}

// seed adds due deliveries to a backlog, evenly over its flows. The ids are UUIDv7 of this moment with a number in
// place of the random bits.
func (r *webhookRig) seed(ctx context.Context, b backlog, rows int) error {
	const add = `
		WITH moment AS (SELECT date_trunc('milliseconds', clock_timestamp()) AS created_at),
		made AS (
			SELECT (lpad(to_hex((extract(epoch FROM m.created_at) * 1000)::bigint), 12, '0') || '70008000' || lpad(to_hex(n), 12, '0'))::uuid AS id,
			       m.created_at, f.flow_id, f.organization_id
			FROM moment m, generate_series($1::bigint, $2::bigint) n
			JOIN webhook.flow f ON f.organization_id = $3 || (1 + n % $4::bigint)
		), kept AS (
			INSERT INTO webhook.deliveries (id, created_at, organization_id, flow_id, url, event_type, signing_mode, status, max_attempts, updated_at)
			SELECT id, created_at, organization_id, flow_id, $5, 'train.arrived', 'org_timestamp', 'queued', 12, created_at FROM made ORDER BY id
		), bodies AS (
			INSERT INTO webhook.delivery_body (delivery_id, created_at, body) SELECT id, created_at, $6::bytea FROM made ORDER BY id
		)
		INSERT INTO webhook.delivery_queue (delivery_id, created_at, flow_id, due_at, body_bytes)
		SELECT id, created_at, flow_id, now(), octet_length($6::bytea) FROM made ORDER BY id`
	body := []byte(strings.Replace(payload, `"at":`+client.Stamp+`,`, "", 1)) // without a timestamp, since its age is meaningless
	for rows > 0 {
		n := min(rows, seedPage)
		if _, err := r.db.Exec(ctx, add, r.seeded+1, r.seeded+n, b.prefix, b.organizations, r.receiver.url+b.path, body); err != nil {
			return fmt.Errorf("seed: %w", err)
		}
		r.seeded += n
		rows -= n
	}
	return nil
}

// work counts what was read and written in the service's tables.
type work struct{ read, written, blocks int64 }

func (r *webhookRig) worked(ctx context.Context, tables string) (w work, err error) {
	err = r.db.QueryRow(ctx, `
		SELECT sum(coalesce(t.idx_tup_fetch, 0) + t.seq_tup_read)::bigint, sum(t.n_tup_ins + t.n_tup_upd + t.n_tup_del)::bigint,
		       sum(io.heap_blks_hit + io.heap_blks_read + coalesce(io.idx_blks_hit + io.idx_blks_read, 0))::bigint
		FROM pg_stat_user_tables t JOIN pg_statio_user_tables io USING (relid)
		WHERE t.schemaname = 'webhook' AND t.relname ~ $1`, tables).Scan(&w.read, &w.written, &w.blocks)
	return w, err
}

func (w work) since(before work) work {
	return work{w.read - before.read, w.written - before.written, w.blocks - before.blocks}
}
