-- name: EnsurePartitions :one
SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date - 1, @days::integer);

-- name: TakeExpired :many
DELETE FROM delivery_queue
WHERE delivery_id IN (
    SELECT delivery_id FROM delivery_queue
    WHERE deadline_at <= now() AND (leased_by IS NULL OR due_at <= now())
    LIMIT @page FOR UPDATE SKIP LOCKED)
RETURNING delivery_id, created_at;

-- name: ExpireDeliveries :exec
UPDATE deliveries d
SET status = 'expired', updated_at = now(), finished_at = now()
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS expired
WHERE d.id = expired.id AND d.created_at = expired.created_at
  AND d.id = ANY (@ids::uuid[])
  AND d.created_at BETWEEN @oldest AND @newest;

-- name: PurgeKeys :execrows
DELETE FROM idempotency
WHERE (organization_id, key_hash) IN (
    SELECT organization_id, key_hash FROM idempotency
    WHERE expires_at <= now() LIMIT @page FOR UPDATE SKIP LOCKED);
