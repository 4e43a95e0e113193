-- name: CountEndpoints :exec
-- CountEndpoints counts the outcomes of deliveries for their endpoints, pauses endpoints that are gone or have failed
-- for too long, and adds operational events about it. Outcomes at an earlier URL of the endpoint don't count. It locks in
-- order, to avoid deadlocks.
WITH counted AS (
    SELECT unnest(@ids::uuid[]) AS id, unnest(@urls::text[]) AS url, unnest(@delivered::bigint[]) AS delivered, unnest(@failed::bigint[]) AS failed,
           unnest(@gone::boolean[]) AS gone
), locked AS (
    SELECT e.id, e.organization_id, e.flow_id, e.active, e.failing_since, e.failures + c.failed AS failures,
           e.failing_reported_at, c.delivered, c.gone
    FROM (SELECT id, url, delivered, failed, gone FROM counted ORDER BY id) AS c
    CROSS JOIN LATERAL (SELECT id, organization_id, flow_id, active, failing_since, failures, failing_reported_at, deleted_at
                        FROM endpoints
                        WHERE endpoints.id = c.id AND endpoints.url = c.url AND (c.failed > 0 OR c.gone OR endpoints.failing_since IS NOT NULL)
                        LIMIT 1 FOR UPDATE) AS e
    WHERE e.deleted_at IS NULL
), judged AS (
    SELECT id, organization_id, flow_id, delivered, failures,
           CASE WHEN NOT active THEN NULL
                WHEN gone THEN 'gone'
                WHEN delivered = 0 AND failures >= @disabled_failures::integer
                     AND failing_since < now() - @disabled_after::interval THEN 'failing' END AS reason,
           (active AND delivered = 0 AND failing_reported_at IS NULL AND failures >= @failing_failures::integer
               AND failing_since < now() - @failing_after::interval) AS failing,
           (delivered > 0 AND failing_reported_at IS NOT NULL) AS recovered
    FROM locked
), counted_endpoints AS (
    UPDATE endpoints e
    SET failures = CASE WHEN j.delivered > 0 THEN 0 ELSE j.failures END,
        failing_since = CASE WHEN j.delivered > 0 THEN NULL ELSE coalesce(e.failing_since, now()) END,
        failing_reported_at = CASE WHEN j.delivered > 0 THEN NULL WHEN j.failing THEN now() ELSE e.failing_reported_at END,
        active = e.active AND j.reason IS NULL,
        disabled_reason = coalesce(j.reason, e.disabled_reason),
        disabled_at = CASE WHEN j.reason IS NULL THEN e.disabled_at ELSE now() END,
        updated_at = CASE WHEN j.reason IS NULL THEN e.updated_at ELSE now() END
    FROM judged j WHERE e.id = ANY (ARRAY[j.id])
), paused AS (
    UPDATE flow f
    SET paused = true, state = 'open', parked_reason = 'endpoint_paused', parked_until = 'infinity', ready_at = 'infinity'
    FROM judged j WHERE f.flow_id = ANY (ARRAY[j.flow_id]) AND j.reason IS NOT NULL
)
INSERT INTO operational_event (organization_id, type, endpoint_id)
SELECT organization_id, type, id
FROM judged CROSS JOIN LATERAL (VALUES
    ('switchyard.endpoint.disabled', reason IS NOT NULL),
    ('switchyard.endpoint.failing', failing AND reason IS NULL),
    ('switchyard.endpoint.recovered', recovered)) AS said (type, so)
WHERE so
ORDER BY id;

-- name: ReportFailed :exec
INSERT INTO operational_event (organization_id, type, endpoint_id, delivery_id)
SELECT unnest(@organizations::text[]), 'switchyard.delivery.failed',
       NULLIF(unnest(@endpoints::uuid[]), '00000000-0000-0000-0000-000000000000'), unnest(@ids::uuid[]);
