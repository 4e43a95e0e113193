-- name: PickFlows :many
-- The flows that have waited longest. Held by another claim: passed over.
SELECT flow_id, organization_id, (state = 'open')::boolean AS probe
FROM flow
WHERE ready_at <= now()
  AND flow_id <> ALL (@full_flows::bigint[])
  AND organization_id <> ALL (@full_organizations::text[])
ORDER BY ready_at
LIMIT @flows
FOR NO KEY UPDATE SKIP LOCKED;

-- name: TakeRows :many
-- Leases the oldest due rows of each flow, at most its room. An array, because
-- no plan runs it twice, which would lock further rows, or reads the whole queue.
UPDATE delivery_queue q
SET due_at = now() + @lease::interval, lease_seq = q.lease_seq + 1, leased_by = @replica_id::bigint
WHERE q.delivery_id = ANY (ARRAY(
    SELECT due.delivery_id
    FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@rooms::integer[]) AS room) AS picked
    CROSS JOIN LATERAL (
        SELECT waiting.delivery_id FROM delivery_queue waiting
        WHERE waiting.flow_id = picked.flow_id AND waiting.due_at <= now()
        ORDER BY waiting.due_at
        LIMIT picked.room
        FOR UPDATE SKIP LOCKED
    ) AS due))
RETURNING q.delivery_id, q.created_at, q.flow_id, q.lease_seq;

-- name: ReadJobs :many
SELECT d.id, d.created_at, d.organization_id, d.url, d.event_type, d.signing_mode, d.headers, d.sealed_headers,
       d.traceparent, d.generation, d.attempts, d.max_attempts, d.deadline_at, b.body
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
CROSS JOIN LATERAL (SELECT * FROM deliveries
                    WHERE deliveries.id = wanted.id AND deliveries.created_at = wanted.created_at LIMIT 1) AS d
CROSS JOIN LATERAL (SELECT delivery_body.body FROM delivery_body
                    WHERE delivery_body.delivery_id = wanted.id AND delivery_body.created_at = wanted.created_at
                    LIMIT 1) AS b;

-- name: TurnFlows :exec
-- Puts picked flows behind the others; one that is probed waits for its probe.
UPDATE flow f
SET ready_at = now() + turn.delay,
    parked_until = CASE WHEN f.state = 'open' THEN now() + turn.delay ELSE f.parked_until END
FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@delays::interval[]) AS delay) AS turn
WHERE f.flow_id = turn.flow_id;

-- name: LockIdleFlows :many
-- Flows that nobody is adding rows to at this moment: an enqueue or a settle
-- holds FOR KEY SHARE until its rows can be seen.
SELECT flow_id FROM flow WHERE flow_id = ANY (@flow_ids::bigint[]) FOR UPDATE SKIP LOCKED;

-- name: SleepFlows :exec
-- A statement of its own, after LockIdleFlows, so that it sees every row.
UPDATE flow f
SET ready_at = greatest(f.parked_until, coalesce(
    (SELECT min(q.due_at) FROM delivery_queue q WHERE q.flow_id = f.flow_id), 'infinity'))
WHERE f.flow_id = ANY (@flow_ids::bigint[]);

-- name: NextReady :one
-- When a flow will be ready next, counted from now in seconds; negative when none is planned.
SELECT (CASE WHEN min(ready_at) IS NULL THEN -1 -- greatest would pass over the null
             ELSE greatest(extract(epoch FROM min(ready_at) - clock_timestamp()), 0) END)::double precision AS seconds
FROM flow WHERE ready_at < 'infinity';
