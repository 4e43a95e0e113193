-- name: EnsurePartitions :one
SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date - 1, @days::integer);

-- name: ListExpired :many
SELECT q.delivery_id FROM delivery_queue q
WHERE q.deadline_at <= now() AND (q.leased_by IS NULL OR q.due_at <= now())
LIMIT @page;

-- name: TakeExpired :many
-- TakeExpired removes those of the rows that have expired.
DELETE FROM delivery_queue
WHERE delivery_id = ANY (ARRAY(
    SELECT q.delivery_id FROM delivery_queue q
    WHERE q.delivery_id = ANY (@ids::uuid[]) AND q.deadline_at <= now() AND (q.leased_by IS NULL OR q.due_at <= now())
    FOR UPDATE SKIP LOCKED))
RETURNING delivery_id, created_at, lease_seq, flow_id, ordering_key, position, due_at;

-- name: ExpireDeliveries :many
UPDATE deliveries d
SET status = 'expired', updated_at = now(), finished_at = now(), lease_seq = expired.lease_seq
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at,
             unnest(@lease_seqs::bigint[]) AS lease_seq) AS expired
WHERE d.id = expired.id AND d.created_at = expired.created_at
  AND d.id = ANY (@ids::uuid[])
  AND d.created_at BETWEEN @oldest AND @newest
RETURNING d.organization_id, d.id, d.created_at;

-- name: PurgeKeys :execrows
DELETE FROM idempotency
WHERE ctid = ANY (ARRAY(
    SELECT i.ctid FROM idempotency i
    WHERE i.expires_at <= now() LIMIT @page FOR UPDATE SKIP LOCKED));

-- name: DropOldestDay :one
-- DropOldestDay returns a day far in the past for none.
SELECT coalesce(drop_oldest_day((now() - @retention::interval)::date), 'epoch')::date AS day;

-- name: SetLockTimeout :exec
SELECT set_config('lock_timeout', @timeout::text, true);

-- name: ListIdleFlows :many
-- ListIdleFlows returns flows of hosts that have had no activity for a long time.
SELECT f.flow_id
FROM flow f
LEFT JOIN LATERAL (SELECT last_delivered_at, last_failed_at FROM flow_health
                   WHERE flow_health.flow_id = f.flow_id LIMIT 1) AS h ON true
WHERE f.endpoint_id IS NULL AND f.ready_at = 'infinity' AND f.created_at < now() - @idle::interval
  AND coalesce(greatest(h.last_delivered_at, h.last_failed_at), f.created_at) < now() - @idle::interval
LIMIT @page
FOR UPDATE OF f SKIP LOCKED;

-- name: ListIdlePathFlows :many
-- ListIdlePathFlows is ListIdleFlows for the flows of paths.
SELECT f.flow_id
FROM flow f
LEFT JOIN LATERAL (SELECT last_delivered_at, last_failed_at FROM flow_health
                   WHERE flow_health.flow_id = f.flow_id LIMIT 1) AS h ON true
WHERE f.of_path AND f.ready_at = 'infinity' AND f.created_at < now() - @idle::interval
  AND coalesce(greatest(h.last_delivered_at, h.last_failed_at), f.created_at) < now() - @idle::interval
LIMIT @page
FOR UPDATE OF f SKIP LOCKED;

-- name: RemoveFlows :execrows
-- RemoveFlows runs after the lock, as a separate statement, so that it sees every row.
WITH removed AS (
    DELETE FROM flow f
    WHERE f.flow_id = ANY (@flow_ids::bigint[])
      AND NOT EXISTS (SELECT FROM delivery_queue q WHERE q.flow_id = f.flow_id OFFSET 0)
    RETURNING f.flow_id
), healths AS (
    DELETE FROM flow_health WHERE flow_id = ANY (ARRAY(SELECT removed.flow_id FROM removed))
)
SELECT flow_id FROM removed;
