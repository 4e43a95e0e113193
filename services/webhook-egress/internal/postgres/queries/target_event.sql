-- name: ReportTargets :exec
-- ReportTargets runs after MoveTargets, as a separate statement, so that it sees which flows wait. It records the
-- targets at which a circuit for deliveries without an endpoint is open: the host's, or a path's. It adds an event when
-- the first of a target's circuits opens, and when the last one closes. It locks in order, to avoid deadlocks between
-- settles.
WITH move AS MATERIALIZED (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host, unnest(@ports::integer[]) AS port,
           unnest(@target_flows::bigint[]) AS flow_id, unnest(@phases::text[]) AS phase
), opened AS (
    INSERT INTO target_circuit AS c (organization_id, host, port)
    SELECT DISTINCT m.organization_id, m.host, m.port
    FROM move AS m
    CROSS JOIN LATERAL (SELECT f.flow_id FROM flow f
                        WHERE f.organization_id = m.organization_id AND f.host = m.host AND f.port = m.port
                          AND (f.endpoint_id IS NULL OR f.of_path) AND m.flow_id IN (0, f.flow_id)
                        LIMIT 1) AS direct
    WHERE m.phase <> ''
    ORDER BY m.organization_id, m.host, m.port
    ON CONFLICT (organization_id, host, port) DO UPDATE SET seen_at = now()
    RETURNING c.organization_id, c.host, c.port, c.opened_at, c.opened_at = c.seen_at AS new
), closed AS (
    DELETE FROM target_circuit AS c
    USING (SELECT DISTINCT m.organization_id, m.host, m.port FROM move AS m
           LEFT JOIN LATERAL (SELECT f.flow_id FROM flow f
                              WHERE f.organization_id = m.organization_id AND f.host = m.host AND f.port = m.port
                                AND f.parked_reason = 'breaker_open' AND (f.endpoint_id IS NULL OR f.of_path)
                              LIMIT 1) AS waiting ON true
           WHERE m.phase = '' AND waiting.flow_id IS NULL
           ORDER BY m.organization_id, m.host, m.port) AS m
    WHERE c.organization_id = ANY (ARRAY[m.organization_id]) AND c.host = m.host AND c.port = m.port
    RETURNING c.organization_id, c.host, c.port, c.opened_at
)
INSERT INTO target_event (organization_id, type, host, port, opened_at)
SELECT organization_id, 'switchyard.target.circuit_opened', host, port, opened_at FROM opened WHERE new
UNION ALL
SELECT organization_id, 'switchyard.target.circuit_closed', host, port, opened_at FROM closed;

-- name: CloseForgottenTargets :execrows
-- CloseForgottenTargets records that circuits are closed which nothing has probed for a while: the breaker forgets them,
-- too, unless deliveries wait for them.
WITH idle AS MATERIALIZED (
    SELECT t.organization_id, t.host, t.port
    FROM target_circuit AS t
    LEFT JOIN LATERAL (SELECT f.flow_id
                       FROM (SELECT flow_id, parked_reason, ready_at FROM flow
                             WHERE (flow.endpoint_id IS NULL OR flow.of_path) AND flow.organization_id = t.organization_id AND flow.host = t.host AND flow.port = t.port
                             OFFSET 0) AS f
                       WHERE f.parked_reason = 'breaker_open' AND f.ready_at < 'infinity'
                       LIMIT 1) AS waiting ON true
    WHERE t.seen_at < now() - @idle::interval AND waiting.flow_id IS NULL
    ORDER BY t.seen_at LIMIT @page FOR UPDATE OF t SKIP LOCKED
), gone AS (
    DELETE FROM target_circuit AS c
    USING idle AS i
    WHERE c.organization_id = ANY (ARRAY[i.organization_id]) AND c.host = i.host AND c.port = i.port
    RETURNING c.organization_id, c.host, c.port, c.opened_at
)
INSERT INTO target_event (organization_id, type, host, port, opened_at)
SELECT organization_id, 'switchyard.target.circuit_closed', host, port, opened_at FROM gone;

-- name: TakeTargetEvents :many
-- TakeTargetEvents removes the events in the transaction that fans them out.
WITH taken AS (
    DELETE FROM target_event
    WHERE target_event_id = ANY (ARRAY(SELECT t.target_event_id FROM target_event t
                                       ORDER BY t.target_event_id LIMIT @page FOR UPDATE SKIP LOCKED))
    RETURNING target_event_id, organization_id, type, host, port, opened_at, occurred_at
)
SELECT organization_id, type, host, port, opened_at, occurred_at FROM taken ORDER BY target_event_id;
