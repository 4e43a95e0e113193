-- name: LockFlows :many
-- LockFlows prevents flows from being put to sleep or removed while rows are added to them. The lock conflicts with
-- nothing else: claims and other enqueues continue.
SELECT flow_id, organization_id, scheme, host, port, (state = 'open')::boolean AS metered
FROM flow
WHERE flow_id = ANY (ARRAY(
    SELECT found.flow_id
    FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@schemes::text[]) AS scheme,
                 unnest(@hosts::text[]) AS host, unnest(@ports::integer[]) AS port) AS wanted
    CROSS JOIN LATERAL (SELECT f.flow_id FROM flow f
                        WHERE f.organization_id = wanted.organization_id AND f.scheme = wanted.scheme
                          AND f.host = wanted.host AND f.port = wanted.port AND f.endpoint_id IS NULL
                        LIMIT 1) AS found))
ORDER BY flow_id
FOR KEY SHARE;

-- name: AddFlows :exec
-- AddFlows inserts in order, so that two batches with the same new flows do not deadlock.
INSERT INTO flow (organization_id, scheme, host, port)
SELECT unnest(@organizations::text[]) AS organization_id, unnest(@schemes::text[]) AS scheme,
       unnest(@hosts::text[]) AS host, unnest(@ports::integer[]) AS port
ORDER BY organization_id, host, port, scheme
ON CONFLICT DO NOTHING;

-- name: LockPathFlows :many
-- LockPathFlows is LockFlows for the flows of paths.
SELECT flow_id, organization_id, endpoint_id, (state = 'open')::boolean AS metered
FROM flow
WHERE flow_id = ANY (ARRAY(
    SELECT found.flow_id
    FROM (SELECT unnest(@path_ids::uuid[]) AS path_id) AS wanted
    CROSS JOIN LATERAL (SELECT f.flow_id FROM flow f WHERE f.endpoint_id = wanted.path_id LIMIT 1) AS found))
ORDER BY flow_id
FOR KEY SHARE;

-- name: AddPathFlows :exec
-- AddPathFlows adds flows of paths to organizations that have fewer than most of them. It inserts in order, so that two
-- batches with the same new flows do not deadlock.
WITH wanted AS MATERIALIZED (
    SELECT unnest(@path_ids::uuid[]) AS path_id, unnest(@organizations::text[]) AS organization_id,
           unnest(@schemes::text[]) AS scheme, unnest(@hosts::text[]) AS host, unnest(@ports::integer[]) AS port
), few AS MATERIALIZED (
    SELECT o.organization_id
    FROM (SELECT DISTINCT wanted.organization_id FROM wanted) AS o
    CROSS JOIN LATERAL (SELECT count(*) AS number
                        FROM (SELECT FROM flow AS f
                              WHERE f.organization_id = o.organization_id AND f.of_path LIMIT @most::integer) AS f) AS paths
    WHERE paths.number < @most::integer
)
INSERT INTO flow (organization_id, scheme, host, port, endpoint_id, of_path)
SELECT w.organization_id, w.scheme, w.host, w.port, w.path_id, true
FROM wanted AS w
WHERE w.organization_id = ANY (ARRAY(SELECT few.organization_id FROM few))
ORDER BY w.path_id
ON CONFLICT DO NOTHING;

-- name: ClaimKeys :many
-- ClaimKeys returns the ids of the deliveries that won their key. It waits for a key that another transaction holds,
-- and takes over expired ones.
INSERT INTO idempotency (organization_id, key_hash, fingerprint, delivery_id, expires_at)
SELECT organization_id, key_hash, fingerprint, delivery_id, now() + @lifetime::interval
FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@key_hashes::bytea[]) AS key_hash,
             unnest(@fingerprints::bytea[]) AS fingerprint, unnest(@delivery_ids::uuid[]) AS delivery_id) AS wanted
ORDER BY organization_id, key_hash
ON CONFLICT (organization_id, key_hash) DO UPDATE
    SET fingerprint = excluded.fingerprint, delivery_id = excluded.delivery_id, expires_at = excluded.expires_at
    WHERE idempotency.expires_at <= now()
RETURNING delivery_id;

-- name: ReadKeys :many
-- ReadKeys returns the first deliveries of keys that were used before.
SELECT i.organization_id, i.key_hash, i.fingerprint, i.delivery_id
FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@key_hashes::bytea[]) AS key_hash) AS wanted
CROSS JOIN LATERAL (SELECT organization_id, key_hash, fingerprint, delivery_id FROM idempotency
                    WHERE idempotency.organization_id = wanted.organization_id AND idempotency.key_hash = wanted.key_hash
                    LIMIT 1) AS i;

-- name: ReadStatuses :many
SELECT d.id, d.status, (q.leased_by IS NOT NULL AND q.due_at > now())::boolean AS leased
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
CROSS JOIN LATERAL (SELECT id, status FROM deliveries
                    WHERE id = wanted.id AND created_at = wanted.created_at LIMIT 1) AS d
LEFT JOIN LATERAL (SELECT leased_by, due_at FROM delivery_queue WHERE delivery_id = d.id LIMIT 1) AS q ON true;

-- name: AddDeliveries :exec
-- AddDeliveries inserts the three rows of each delivery in one statement. A leased row is sent by this replica from
-- memory; the others are due at once, except those behind others with their ordering key. The lease counts from this statement on: the transaction may have waited for a
-- key before.
WITH draft AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at,
           unnest(@organizations::text[]) AS organization_id, unnest(@owners::text[]) AS owner_id,
           unnest(@flow_ids::bigint[]) AS flow_id, unnest(@urls::text[]) AS url,
           unnest(@event_types::text[]) AS event_type, unnest(@headers::text[]) AS headers,
           unnest(@sealed_headers::bytea[]) AS sealed_headers, unnest(@keys::text[]) AS idempotency_key,
           unnest(@traceparents::text[]) AS traceparent, unnest(@max_attempts::integer[]) AS max_attempts,
           NULLIF(unnest(@deadlines::timestamptz[]), 'epoch') AS deadline_at, unnest(@bodies::bytea[]) AS body,
           unnest(@leased::boolean[]) AS leased, unnest(@signing_modes::text[]) AS signing_mode,
           NULLIF(unnest(@endpoints::uuid[]), '00000000-0000-0000-0000-000000000000') AS endpoint_id,
           unnest(@tests::boolean[]) AS test, NULLIF(unnest(@ordering_keys::text[]), '') AS ordering_key,
           NULLIF(unnest(@positions::bigint[]), 0) AS position, unnest(@many_paths::boolean[]) AS many_paths,
           NULLIF(unnest(@moves::integer[]), -1) AS moves
), delivery AS (
    INSERT INTO deliveries (id, created_at, organization_id, owner_id, flow_id, url, event_type, signing_mode,
                            headers, sealed_headers, idempotency_key, traceparent, status, max_attempts,
                            deadline_at, updated_at, endpoint_id, test, ordering_key, endpoint_moves)
    SELECT id, created_at, organization_id, NULLIF(owner_id, ''), flow_id, url, event_type, signing_mode,
           NULLIF(headers, '')::jsonb, sealed_headers, NULLIF(idempotency_key, ''), NULLIF(traceparent, ''),
           'queued', max_attempts, deadline_at, created_at, endpoint_id, test, ordering_key, moves
    FROM draft
), body AS (
    INSERT INTO delivery_body (delivery_id, created_at, body)
    SELECT id, created_at, body FROM draft
)
INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at, lease_seq, leased_by, deadline_at, body_bytes,
                            ordering_key, position, path)
SELECT id, created_at, flow_id,
       CASE WHEN leased THEN clock_timestamp() + @lease::interval WHEN position > 1 THEN @blocked_until::timestamptz ELSE now() END AS due_at,
       CASE WHEN leased THEN 1 ELSE 0 END,
       CASE WHEN leased THEN @replica_id::bigint END,
       deadline_at, octet_length(body), ordering_key, position,
       CASE WHEN many_paths THEN hashtextextended(split_part(url, '?', 1), 0) END
FROM draft;

-- name: AdvanceFlows :exec
-- AdvanceFlows updates flows with rows that become due before the flow's next visit, or before its floor. A parked
-- flow stays parked.
UPDATE flow f
SET ready_at = least(f.ready_at, greatest(earlier.due_at, f.parked_until)), floor = least(f.floor, earlier.due_at)
FROM (SELECT flow_id, min(due_at) AS due_at
      FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, now() + unnest(@delays::interval[]) AS due_at) AS each_row
      GROUP BY flow_id ORDER BY flow_id) AS earlier
WHERE f.flow_id = ANY (ARRAY[earlier.flow_id]) AND (f.ready_at > greatest(earlier.due_at, f.parked_until) OR f.floor > earlier.due_at);
