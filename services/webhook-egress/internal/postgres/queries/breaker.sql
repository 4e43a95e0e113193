-- name: LockTargets :many
-- LockTargets returns the flows that a change of a target's circuit concerns: those with waiting rows and parked
-- ones. It locks them in order, to avoid deadlocks between settles.
SELECT flow_id
FROM flow
WHERE flow_id = ANY (ARRAY(
    SELECT found.flow_id
    FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host,
                 unnest(@ports::integer[]) AS port) AS target
    CROSS JOIN LATERAL (SELECT f.flow_id FROM flow f
                        WHERE f.organization_id = target.organization_id AND f.host = target.host AND f.port = target.port
                        OFFSET 0) AS found))
  AND NOT paused AND (ready_at < 'infinity' OR state = 'open')
ORDER BY flow_id
FOR NO KEY UPDATE;

-- name: MoveTargets :exec
-- MoveTargets parks, wakes or releases flows according to the circuit of their target. A flow that is parked for
-- another reason stays parked.
UPDATE flow f
SET state = CASE WHEN move.phase = '' THEN 'closed' ELSE 'open' END,
    parked_reason = CASE WHEN move.phase <> '' THEN 'breaker_open' END,
    parked_until = CASE WHEN move.phase = '' THEN '-infinity' ELSE now() + move.delay END,
    ready_at = CASE WHEN f.ready_at = 'infinity' THEN f.ready_at ELSE now() + move.delay END,
    opened = CASE WHEN move.phase = '' THEN 0 ELSE move.opened END
FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host,
             unnest(@ports::integer[]) AS port, unnest(@phases::text[]) AS phase,
             unnest(@delays::interval[]) AS delay, unnest(@opened::integer[]) AS opened) AS move
WHERE f.flow_id = ANY (@flow_ids::bigint[])
  AND f.organization_id = ANY (ARRAY[move.organization_id]) AND f.host = move.host AND f.port = move.port
  AND (move.phase = 'open' AND f.state = 'closed' OR f.parked_reason = 'breaker_open');
