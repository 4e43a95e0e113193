-- name: JoinOrder :many
-- JoinOrder adds numbers of deliveries to ordering keys, and locks these until the end of the transaction.
INSERT INTO ordering_key AS k (flow_id, key, last_position)
SELECT flow_id, key, added
FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@keys::text[]) AS key, unnest(@added::bigint[]) AS added) AS joining
ORDER BY flow_id, key
ON CONFLICT (flow_id, key) DO UPDATE SET last_position = k.last_position + excluded.last_position
RETURNING flow_id, key, last_position;

-- name: ReadOrder :many
-- ReadOrder returns the ordering keys of queued deliveries that have one.
SELECT q.flow_id, q.ordering_key::text AS key
FROM (SELECT unnest(@ids::uuid[]) AS id) AS wanted
CROSS JOIN LATERAL (SELECT flow_id, ordering_key FROM delivery_queue WHERE delivery_id = wanted.id LIMIT 1) AS q
WHERE q.ordering_key IS NOT NULL;

-- name: LockOrder :exec
-- LockOrder locks ordering keys in order, to avoid deadlocks.
SELECT k.key
FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@keys::text[]) AS key ORDER BY flow_id, key) AS wanted
CROSS JOIN LATERAL (SELECT key FROM ordering_key
                    WHERE ordering_key.flow_id = wanted.flow_id AND ordering_key.key = wanted.key
                    LIMIT 1 FOR UPDATE) AS k;

-- name: ReleaseOrder :many
-- ReleaseOrder runs after LockOrder, as a separate statement, so that it sees every row. It makes the first delivery of
-- each key due that is behind a position, before which none is queued, and removes keys without one. It returns the flow
-- of each delivery that was blocked until then.
WITH ended AS (
    SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@keys::text[]) AS key, unnest(@positions::bigint[]) AS position
), next AS MATERIALIZED (
    SELECT ended.flow_id, ended.key, q.delivery_id, q.due_at
    FROM ended
    LEFT JOIN LATERAL (SELECT delivery_id, due_at FROM delivery_queue
                       WHERE delivery_queue.flow_id = ended.flow_id AND ordering_key = ended.key
                         AND delivery_queue.position > ended.position
                       ORDER BY delivery_queue.position LIMIT 1) AS q ON true
), removed AS (
    DELETE FROM ordering_key k
    USING next
    WHERE next.delivery_id IS NULL AND k.flow_id = ANY (ARRAY[next.flow_id]) AND k.key = ANY (ARRAY[next.key])
)
UPDATE delivery_queue q
SET due_at = now()
FROM next
WHERE q.delivery_id = ANY (ARRAY[next.delivery_id]) AND next.due_at = @blocked_until::timestamptz
RETURNING q.flow_id;

-- name: ListOrder :many
-- ListOrder returns a page of ordering keys. One is stranded if its first delivery is blocked or if it has none: a
-- release before migration 00011 ended the delivery before.
SELECT k.flow_id, k.key, (q.due_at IS NULL OR q.due_at = @blocked_until::timestamptz)::boolean AS stranded
FROM (SELECT flow_id, key FROM ordering_key
      WHERE (flow_id, key) > (@after_flow::bigint, @after_key::text)
      ORDER BY flow_id, key LIMIT @page) AS k
LEFT JOIN LATERAL (SELECT due_at FROM delivery_queue
                   WHERE delivery_queue.flow_id = k.flow_id AND ordering_key = k.key
                   ORDER BY delivery_queue.position LIMIT 1) AS q ON true
ORDER BY k.flow_id, k.key;
