-- name: ReadFlowsOf :many
-- ReadFlowsOf returns the flows of deliveries: that of the endpoint, or that of the URL. A test uses the flow of its
-- URL.
SELECT d.id, d.organization_id, d.url, d.ordering_key, coalesce(e.flow_id, 0)::bigint AS flow_id,
       (d.test OR d.endpoint_id IS NULL)::boolean AS direct
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
CROSS JOIN LATERAL (SELECT id, organization_id, url, ordering_key, endpoint_id, test FROM deliveries
                    WHERE deliveries.id = wanted.id AND deliveries.created_at = wanted.created_at LIMIT 1) AS d
LEFT JOIN LATERAL (SELECT flow_id FROM endpoints WHERE endpoints.id = d.endpoint_id LIMIT 1) AS e ON true;

-- name: LockEnded :many
-- LockEnded locks the wanted deliveries that have ended, in order, to avoid deadlocks. The fence of a new queue row
-- has to be higher than that of the previous one and of every attempt.
SELECT d.id, d.created_at, d.ordering_key, octet_length(b.body)::integer AS body_bytes,
       greatest(d.lease_seq, coalesce((SELECT max(a.lease_seq) FROM attempts a
                                       WHERE a.delivery_id = d.id AND a.created_at = d.created_at), 0))::bigint AS lease_seq,
       (e.deleted_at IS NOT NULL)::boolean AS endpoint_deleted
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
JOIN deliveries d ON d.id = ANY (ARRAY[wanted.id]) AND d.created_at = wanted.created_at
CROSS JOIN LATERAL (SELECT body FROM delivery_body
                    WHERE delivery_id = coalesce(d.event_id, d.id) AND delivery_body.created_at = wanted.created_at
                    LIMIT 1) AS b
LEFT JOIN LATERAL (SELECT deleted_at FROM endpoints WHERE endpoints.id = d.endpoint_id LIMIT 1) AS e ON true
WHERE d.finished_at IS NOT NULL
ORDER BY wanted.id
FOR UPDATE OF d;

-- name: Requeue :exec
-- Requeue starts a new series of attempts for each delivery. Zero attempts means as many as before, the epoch no
-- deadline. paths has the URLs of deliveries whose flow several paths share.
WITH wanted AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at,
           unnest(@flow_ids::bigint[]) AS flow_id, unnest(@lease_seqs::bigint[]) AS lease_seq,
           unnest(@body_bytes::integer[]) AS body_bytes, NULLIF(unnest(@ordering_keys::text[]), '') AS ordering_key,
           NULLIF(unnest(@positions::bigint[]), 0) AS position, NULLIF(unnest(@paths::text[]), '') AS path
), reset AS (
    UPDATE deliveries d
    SET status = 'queued', generation = d.generation + 1, attempts = 0, flow_id = w.flow_id,
        max_attempts = CASE WHEN @max_attempts::integer > 0 THEN @max_attempts::integer ELSE d.max_attempts END,
        deadline_at = NULLIF(@deadline::timestamptz, 'epoch'), last_response_code = NULL, last_error = NULL,
        updated_at = now(), finished_at = NULL
    FROM wanted w
    WHERE d.id = w.id AND d.created_at = w.created_at AND d.id = ANY (@ids::uuid[])
      AND d.created_at BETWEEN @oldest AND @newest
), revived AS (
    DELETE FROM dead_letter l
    WHERE l.organization_id = @organization_id AND l.delivery_id = ANY (@ids::uuid[])
      AND l.created_at BETWEEN @oldest AND @newest
)
INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at, lease_seq, deadline_at, body_bytes, ordering_key, position, path)
SELECT id, created_at, flow_id, CASE WHEN position > 1 THEN @blocked_until::timestamptz ELSE now() END AS due_at, lease_seq + 1 AS lease_seq,
       NULLIF(@deadline::timestamptz, 'epoch'), body_bytes, ordering_key, position, hashtextextended(split_part(path, '?', 1), 0)
FROM wanted;

-- name: TakeQueued :many
DELETE FROM delivery_queue WHERE delivery_id = @id
RETURNING delivery_id, created_at, lease_seq, flow_id, ordering_key, position, due_at;

-- name: TakeQueuedOf :many
-- TakeQueuedOf removes the next rows of a flow. No row can return meanwhile, because the flow is locked.
DELETE FROM delivery_queue
WHERE delivery_id = ANY (ARRAY(SELECT q.delivery_id FROM delivery_queue q WHERE q.flow_id = @flow_id
                               ORDER BY q.due_at LIMIT @page FOR UPDATE))
RETURNING delivery_id, created_at, lease_seq, flow_id, ordering_key, position, due_at;

-- name: CancelDeliveries :exec
UPDATE deliveries d
SET status = 'cancelled', updated_at = now(), finished_at = now(), lease_seq = c.lease_seq
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at,
             unnest(@lease_seqs::bigint[]) AS lease_seq) AS c
WHERE d.id = c.id AND d.created_at = c.created_at AND d.id = ANY (@ids::uuid[])
  AND d.created_at BETWEEN @oldest AND @newest;
