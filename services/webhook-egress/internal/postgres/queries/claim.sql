-- name: PickFlows :many
-- PickFlows returns the flows that have waited longest and skips those locked by another claim. The second condition
-- on ready_at is redundant, but it allows the use of the partial index of ready flows.
SELECT flow_id, organization_id, host, port, (state = 'open')::boolean AS open, coalesce(parked_reason, '') AS parked_reason,
       -- The epoch stands for none.
       (CASE WHEN state = 'open' AND parked_until > 'epoch' THEN parked_until ELSE 'epoch' END)::timestamptz AS parked_until,
       opened, parked_by_host, ready_at, rate_per_second, floor, (floor_at < now() - @floor_pace::interval)::boolean AS floor_old,
       of_path, endpoint_id, circuit
FROM flow
WHERE ready_at <= now()
  AND ready_at < 'infinity'
  AND NOT paused
  AND flow_id <> ALL (@full_flows::bigint[])
  AND organization_id <> ALL (@full_organizations::text[])
ORDER BY ready_at
LIMIT @flows
FOR NO KEY UPDATE SKIP LOCKED;

-- name: ChooseProbes :many
-- ChooseProbes returns the delivery with which each flow probes its host: the oldest due delivery of the next path that has
-- any. It looks up each path by the path before, and examines at most @most paths. After the last path, and for a flow with
-- one path, it returns no delivery: the probe is the flow's oldest row. Index entries below the floor are dead.
WITH RECURSIVE examined AS (
    SELECT f.flow_id, f.floor, n.path, n.delivery_id, n.due_at, 1 AS place
    FROM flow AS f
    CROSS JOIN LATERAL (SELECT q.path, q.delivery_id, q.due_at FROM delivery_queue AS q
                        WHERE q.flow_id = f.flow_id AND q.path > f.probed_path AND q.due_at >= f.floor
                        ORDER BY q.path, q.due_at LIMIT 1) AS n
    WHERE f.flow_id = ANY (@flow_ids::bigint[])
    UNION ALL
    SELECT e.flow_id, e.floor, n.path, n.delivery_id, n.due_at, e.place + 1
    FROM examined AS e
    CROSS JOIN LATERAL (SELECT q.path, q.delivery_id, q.due_at FROM delivery_queue AS q
                        WHERE q.flow_id = e.flow_id AND q.path > e.path AND q.due_at >= e.floor
                        ORDER BY q.path, q.due_at LIMIT 1) AS n
    WHERE e.due_at > now() AND e.place < @most::integer
), last AS MATERIALIZED (
    SELECT DISTINCT ON (e.flow_id) e.flow_id, e.path, e.delivery_id, e.due_at, e.place
    FROM examined AS e
    ORDER BY e.flow_id, e.place DESC
), moved AS (
    UPDATE flow AS f
    SET probed_path = turn.path
    FROM (SELECT wanted.flow_id, CASE WHEN l.due_at <= now() OR l.place = @most::integer THEN l.path ELSE -9223372036854775808 END AS path
          FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id) AS wanted
          LEFT JOIN last AS l ON l.flow_id = wanted.flow_id) AS turn
    WHERE f.flow_id = ANY (ARRAY[turn.flow_id]) AND f.probed_path <> turn.path
)
SELECT l.flow_id, l.delivery_id, l.due_at FROM last AS l WHERE l.due_at <= now();

-- name: TakeRows :many
-- TakeRows leases the oldest due rows of each flow, at most room of them, and only as many as have bodies that fit
-- into the free memory together. It begins at the flow's floor, behind the index entries of dead rows, or at a chosen row
-- and its due time. The subquery is an array, because no plan evaluates that twice, which would lock further rows, or
-- scans the whole queue. A row with an expired lease is taken over.
UPDATE delivery_queue q
SET due_at = now() + @lease::interval, lease_seq = q.lease_seq + 1, leased_by = @replica_id::bigint,
    takeovers = q.takeovers + (q.leased_by IS NOT NULL)::integer
WHERE q.delivery_id = ANY (ARRAY(
    SELECT fits.delivery_id
    FROM (SELECT due.delivery_id, sum(due.body_bytes) OVER (ORDER BY picked.place, due.due_at, due.delivery_id) AS bytes
          FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@rooms::integer[]) AS room,
                       unnest(@floors::timestamptz[]) AS floor, unnest(@firsts::uuid[]) AS first, generate_series(1, cardinality(@flow_ids::bigint[])) AS place) AS picked
          CROSS JOIN LATERAL (
              SELECT waiting.delivery_id, waiting.due_at, waiting.body_bytes FROM delivery_queue waiting
              WHERE waiting.flow_id = picked.flow_id AND waiting.due_at >= picked.floor AND waiting.due_at <= now()
                AND (picked.first IS NULL OR waiting.due_at > picked.floor OR waiting.delivery_id = picked.first)
              ORDER BY waiting.due_at
              LIMIT picked.room
              FOR UPDATE SKIP LOCKED
          ) AS due) AS fits
    WHERE fits.bytes <= @bytes::bigint))
RETURNING q.delivery_id, q.created_at, q.flow_id, q.lease_seq, q.takeovers, q.ordering_key, q.position;

-- name: ReadJobs :many
-- ReadJobs reads a delivery of an endpoint with the endpoint's current URL, and a test, whose flow is that of its own
-- URL, with that URL. The body of an event's delivery is stored with the event. A delivery that was accepted before the
-- endpoint moved to another scheme, host or port is sent without its own credentials, and such a test also without the
-- endpoint's. Times decide only on deliveries that the previous release accepted.
SELECT d.id, d.created_at, d.organization_id, (CASE WHEN d.test THEN d.url ELSE coalesce(e.url, d.url) END)::text AS url, d.event_type, d.signing_mode, d.headers,
       (CASE WHEN moved.before THEN NULL ELSE d.sealed_headers END)::bytea AS sealed_headers, d.traceparent, d.generation, d.attempts, d.max_attempts, d.deadline_at, d.endpoint_id, d.event_id, d.test,
       e.sealed_secret, e.sealed_previous_secret, e.previous_secret_expires_at,
       (CASE WHEN d.test AND moved.before THEN NULL ELSE e.custom_headers END)::jsonb AS custom_headers,
       (CASE WHEN d.test AND moved.before THEN NULL ELSE e.sealed_auth END)::bytea AS sealed_auth,
       e.signatures, e.sealed_older_secrets, e.older_secrets_expire_at, b.body
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
CROSS JOIN LATERAL (SELECT id, created_at, organization_id, url, event_type, signing_mode, headers, sealed_headers,
                           traceparent, generation, attempts, max_attempts, deadline_at, endpoint_id, event_id, test, endpoint_moves
                    FROM deliveries
                    WHERE deliveries.id = wanted.id AND deliveries.created_at = wanted.created_at LIMIT 1) AS d
CROSS JOIN LATERAL (SELECT delivery_body.body FROM delivery_body
                    WHERE delivery_body.delivery_id = coalesce(d.event_id, d.id) AND delivery_body.created_at = d.created_at
                    LIMIT 1) AS b
LEFT JOIN LATERAL (SELECT url, sealed_secret, sealed_previous_secret, previous_secret_expires_at, custom_headers, sealed_auth,
                          signatures, sealed_older_secrets, older_secrets_expire_at, moved_at, moves
                   FROM endpoints
                   WHERE endpoints.id = d.endpoint_id LIMIT 1) AS e ON true
CROSS JOIN LATERAL (SELECT coalesce(d.endpoint_moves < e.moves, d.created_at < e.moved_at) AS before) AS moved;

-- name: TurnFlows :exec
-- TurnFlows puts picked flows behind the others. A flow that is tried for the reason of its parking stays parked
-- until the try has ended.
UPDATE flow f
SET ready_at = now() + turn.delay,
    parked_until = CASE WHEN turn.tried AND f.state = 'open' THEN now() + turn.delay ELSE f.parked_until END
FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@delays::interval[]) AS delay,
             unnest(@tried::boolean[]) AS tried) AS turn
WHERE f.flow_id = ANY (ARRAY[turn.flow_id]);

-- name: LockIdleFlows :many
-- LockIdleFlows locks the flows to which no transaction is adding rows: an enqueue or a settle holds FOR KEY SHARE
-- until its rows are visible.
SELECT flow_id FROM flow WHERE flow_id = ANY (@flow_ids::bigint[]) FOR UPDATE SKIP LOCKED;

-- name: SleepFlows :exec
-- SleepFlows runs after LockIdleFlows, as a separate statement, so that it sees every row. It makes flows wait until
-- their first row is due, and raises their floors. Before a flow sleeps without end, all of its rows are examined:
-- the release before migration 00005 does not lower floors. Transactions take the time of their rows before they lock
-- the flow; the margin covers the time between.
UPDATE flow f
SET ready_at = greatest(f.ready_at, f.parked_until, first.due_at),
    floor = least(first.due_at, now() - @margin::interval), floor_at = now()
FROM (SELECT looked.flow_id, coalesce(
          (SELECT min(q.due_at) FROM delivery_queue q WHERE q.flow_id = looked.flow_id AND q.due_at >= looked.floor),
          (SELECT min(q.due_at) FROM delivery_queue q WHERE q.flow_id = looked.flow_id), 'infinity') AS due_at
      FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id, unnest(@floors::timestamptz[]) AS floor) AS looked) AS first
WHERE f.flow_id = ANY (ARRAY[first.flow_id]) AND NOT f.paused;

-- name: NextReady :one
-- NextReady returns the seconds until a flow is ready; negative when none is planned.
SELECT coalesce((SELECT greatest(extract(epoch FROM ready_at - clock_timestamp()), 0) FROM flow
                 WHERE ready_at < 'infinity' AND NOT paused ORDER BY ready_at LIMIT 1), -1)::double precision AS seconds;
