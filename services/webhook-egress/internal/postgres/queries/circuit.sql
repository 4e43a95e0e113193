-- name: NextTargets :many
-- NextTargets returns the targets after one, in their order, of every organization or of one. It looks up each target by
-- the one before, however many flows they have.
WITH RECURSIVE target AS (
    (SELECT f.organization_id, f.host, f.port, 1 AS place
     FROM flow AS f
     WHERE (f.organization_id, f.host, f.port) > (@after_organization::text, @after_host::text, @after_port::integer)
     ORDER BY f.organization_id, f.host, f.port LIMIT 1)
    UNION ALL
    SELECT n.organization_id, n.host, n.port, t.place + 1
    FROM target AS t
    CROSS JOIN LATERAL (SELECT f.organization_id, f.host, f.port
                        FROM flow AS f
                        WHERE (f.organization_id, f.host, f.port) > (t.organization_id, t.host, t.port)
                        ORDER BY f.organization_id, f.host, f.port LIMIT 1) AS n
    WHERE t.place < @page::integer AND (@every_organization::boolean OR t.organization_id = @organization_id::text)
)
SELECT target.organization_id::text AS organization_id, target.host::text AS host, target.port::integer AS port FROM target
WHERE @every_organization::boolean OR target.organization_id = @organization_id::text
ORDER BY target.place;

-- name: NextOpenTargets :many
-- NextOpenTargets is NextTargets for those with flows that wait for their circuit.
WITH RECURSIVE target AS (
    (SELECT f.organization_id, f.host, f.port, 1 AS place
     FROM flow AS f
     WHERE f.parked_reason = 'breaker_open'
       AND (f.organization_id, f.host, f.port) > (@after_organization::text, @after_host::text, @after_port::integer)
     ORDER BY f.organization_id, f.host, f.port LIMIT 1)
    UNION ALL
    SELECT n.organization_id, n.host, n.port, t.place + 1
    FROM target AS t
    CROSS JOIN LATERAL (SELECT f.organization_id, f.host, f.port
                        FROM flow AS f
                        WHERE f.parked_reason = 'breaker_open'
                          AND (f.organization_id, f.host, f.port) > (t.organization_id, t.host, t.port)
                        ORDER BY f.organization_id, f.host, f.port LIMIT 1) AS n
    WHERE t.place < @page::integer AND (@every_organization::boolean OR t.organization_id = @organization_id::text)
)
SELECT target.organization_id::text AS organization_id, target.host::text AS host, target.port::integer AS port FROM target
WHERE @every_organization::boolean OR target.organization_id = @organization_id::text
ORDER BY target.place;

-- name: ReadTargets :many
-- ReadTargets returns what the flows of targets say together, of at most so many flows of each. The epoch stands for no
-- time.
SELECT wanted.organization_id::text AS organization_id, wanted.host::text AS host, wanted.port::integer AS port,
       of.waiting::boolean AS waiting, coalesce(of.opened_at, 'epoch')::timestamptz AS opened_at,
       coalesce(of.parked_until, 'epoch')::timestamptz AS parked_until, coalesce(of.opened, 0)::integer AS opened,
       of.waiting_flows::integer AS waiting_flows, of.endpoints::integer AS endpoints, coalesce(of.failures, 0)::integer AS failures,
       coalesce(of.last_failed_at, 'epoch')::timestamptz AS last_failed_at,
       coalesce(of.last_delivered_at, 'epoch')::timestamptz AS last_delivered_at
FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host,
             unnest(@ports::integer[]) AS port) AS wanted
CROSS JOIN LATERAL (
    SELECT count(*) FILTER (WHERE f.broken AND f.parked_by_host) > 0 AS waiting,
           min(f.circuit_opened_at) FILTER (WHERE f.parked_by_host) AS opened_at,
           max(f.parked_until) FILTER (WHERE f.broken AND f.parked_by_host) AS parked_until,
           max(f.opened) FILTER (WHERE f.broken AND f.parked_by_host) AS opened,
           count(*) FILTER (WHERE f.broken AND NOT f.parked_by_host) AS waiting_flows,
           count(*) FILTER (WHERE f.endpoint_id IS NOT NULL AND NOT f.of_path AND NOT f.paused) AS endpoints,
           max(h.consecutive_failures) AS failures, max(h.last_failed_at) AS last_failed_at,
           max(h.last_delivered_at) AS last_delivered_at
    FROM (SELECT flow_id, endpoint_id, of_path, paused, parked_by_host, opened, parked_until, circuit_opened_at, coalesce(parked_reason = 'breaker_open', false) AS broken
          FROM flow
          WHERE flow.organization_id = wanted.organization_id AND flow.host = wanted.host AND flow.port = wanted.port
          LIMIT @most::integer) AS f
    LEFT JOIN LATERAL (SELECT consecutive_failures, last_failed_at, last_delivered_at FROM flow_health
                       WHERE flow_health.flow_id = f.flow_id LIMIT 1) AS h ON true
) AS of
ORDER BY wanted.organization_id, wanted.host, wanted.port;

-- name: ReadWaitingFlows :many
-- ReadWaitingFlows returns the flows of targets that wait for their own circuits: at most so many of each target, those
-- whose circuits opened first. The epoch stands for no time.
SELECT of.organization_id, of.host, of.port, of.flow_id, (CASE WHEN NOT of.of_path THEN of.endpoint_id END)::uuid AS endpoint_id,
       coalesce(of.circuit_opened_at, 'epoch')::timestamptz AS opened_at, of.parked_until, of.opened, of.circuit,
       coalesce(h.consecutive_failures, 0)::integer AS failures, coalesce(h.last_failed_at, 'epoch')::timestamptz AS last_failed_at,
       coalesce(h.last_delivered_at, 'epoch')::timestamptz AS last_delivered_at
FROM (SELECT unnest(@organizations::text[]) AS organization_id, unnest(@hosts::text[]) AS host,
             unnest(@ports::integer[]) AS port) AS wanted
CROSS JOIN LATERAL (
    SELECT f.organization_id, f.host, f.port, f.flow_id, f.endpoint_id, f.of_path, f.circuit_opened_at, f.parked_until, f.opened,
           f.circuit
    FROM flow AS f
    WHERE f.organization_id = wanted.organization_id AND f.host = wanted.host AND f.port = wanted.port
      AND f.parked_reason = 'breaker_open' AND NOT f.parked_by_host
    ORDER BY f.circuit_opened_at, f.flow_id
    LIMIT @most::integer
) AS of
LEFT JOIN LATERAL (SELECT consecutive_failures, last_failed_at, last_delivered_at FROM flow_health
                   WHERE flow_health.flow_id = of.flow_id LIMIT 1) AS h ON true
ORDER BY of.organization_id, of.host, of.port, of.circuit_opened_at, of.flow_id;
