-- name: LockTargets :many
-- LockTargets returns the flows that changes of circuits affect: one flow, or for flow_id 0 every flow of the host. It
-- leaves out paused flows, and flows that neither have waiting rows nor are parked. It locks in order, to avoid
-- deadlocks between settles.
SELECT flow_id
FROM flow
WHERE flow_id = ANY (ARRAY(
    SELECT found.flow_id
    FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host,
                 unnest(@ports::integer[]) AS port, unnest(@target_flows::bigint[]) AS flow_id) AS target
    CROSS JOIN LATERAL (SELECT f.flow_id FROM flow f
                        WHERE target.flow_id = 0 AND f.organization_id = target.organization_id AND f.host = target.host
                          AND f.port = target.port
                        OFFSET 0) AS found)
    || @target_flows::bigint[])
  AND NOT paused AND (ready_at < 'infinity' OR state = 'open')
ORDER BY flow_id
FOR NO KEY UPDATE;

-- name: MoveTargets :exec
-- MoveTargets parks, wakes or releases flows according to their own circuit or their host's. A flow that is parked for
-- another reason, or for longer by the other circuit, stays parked. So does a flow that has got a new circuit. When a host's circuit opens, its flows become ready
-- one after the other, the one with the oldest last failure first, so that they take turns to probe the host.
WITH move AS MATERIALIZED (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host,
           unnest(@ports::integer[]) AS port, unnest(@target_flows::bigint[]) AS flow_id, unnest(@phases::text[]) AS phase,
           unnest(@delays::interval[]) AS delay, unnest(@opened::integer[]) AS opened, unnest(@circuits::integer[]) AS circuit
), locked AS MATERIALIZED (
    SELECT f.flow_id, f.organization_id, f.host, f.port, f.circuit, h.last_failed_at
    FROM (SELECT unnest(@flow_ids::bigint[]) AS flow_id) AS id
    CROSS JOIN LATERAL (SELECT flow_id, organization_id, host, port, circuit FROM flow WHERE flow.flow_id = id.flow_id LIMIT 1) AS f
    LEFT JOIN LATERAL (SELECT last_failed_at FROM flow_health WHERE flow_health.flow_id = f.flow_id LIMIT 1) AS h ON true
), turn AS MATERIALIZED (
    SELECT l.flow_id, m.flow_id = 0 AS by_host, m.phase, m.opened,
           now() + m.delay + CASE WHEN m.flow_id = 0 AND m.phase = 'open' THEN
               interval '1 millisecond' * least(row_number() OVER (
                   PARTITION BY m.organization_id, m.host, m.port, m.flow_id ORDER BY l.last_failed_at NULLS FIRST, l.flow_id) - 1, 5000)
               ELSE interval '0' END AS at
    FROM locked AS l
    JOIN move AS m ON m.organization_id = l.organization_id AND m.host = l.host AND m.port = l.port
                 AND (m.flow_id = 0 OR m.flow_id = l.flow_id AND m.circuit = l.circuit)
)
UPDATE flow f
SET state = CASE WHEN turn.phase = '' THEN 'closed' ELSE 'open' END,
    parked_reason = CASE WHEN turn.phase <> '' THEN 'breaker_open' END,
    parked_until = CASE WHEN turn.phase = '' THEN '-infinity' ELSE turn.at END,
    ready_at = CASE WHEN f.ready_at = 'infinity' THEN f.ready_at ELSE turn.at END,
    opened = CASE WHEN turn.phase = '' THEN 0 ELSE turn.opened END,
    parked_by_host = turn.by_host AND turn.phase <> ''
FROM turn
WHERE f.flow_id = ANY (ARRAY[turn.flow_id])
  AND (turn.phase = 'open' AND (f.state = 'closed' OR f.parked_reason = 'breaker_open' AND f.parked_until < turn.at)
       OR f.parked_reason = 'breaker_open' AND f.parked_by_host = turn.by_host);
