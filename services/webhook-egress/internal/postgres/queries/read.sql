-- name: ReadRecords :many
-- ReadRecords returns the wanted deliveries that match the filters, newest first; an empty filter matches all. A
-- delivery of an endpoint has the endpoint's current URL until it has ended.
SELECT d.id, d.created_at, d.organization_id, d.owner_id, d.endpoint_id, d.event_id,
       (CASE WHEN d.finished_at IS NULL AND NOT d.test THEN coalesce(e.url, d.url) ELSE d.url END)::text AS url, d.event_type,
       d.signing_mode, d.idempotency_key, d.status, d.generation, d.attempts, d.max_attempts, d.last_response_code,
       d.last_error, d.deadline_at, d.updated_at, d.finished_at, d.ordering_key, d.filter_error,
       (q.leased_by IS NOT NULL AND q.due_at > now())::boolean AS leased,
       -- The epoch stands for none.
       (CASE WHEN q.delivery_id IS NULL OR (q.leased_by IS NOT NULL AND q.due_at > now()) THEN 'epoch'
             WHEN f.parked_until = 'infinity' THEN 'epoch' -- its endpoint is paused
             WHEN q.due_at = @blocked_until::timestamptz THEN 'epoch'
             ELSE greatest(q.due_at, f.parked_until) END)::timestamptz AS next_attempt_at,
       coalesce(CASE WHEN f.parked_until > now() AND q.delivery_id IS NOT NULL THEN f.parked_reason END, '')::text
           AS parked_reason,
       coalesce(q.due_at = @blocked_until::timestamptz, false)::boolean AS blocked
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
CROSS JOIN LATERAL (SELECT id, created_at, organization_id, owner_id, endpoint_id, event_id, url, event_type, signing_mode,
                           idempotency_key, status, generation, attempts, max_attempts, last_response_code, last_error,
                           deadline_at, updated_at, finished_at, test, ordering_key, filter_error
                    FROM deliveries
                    WHERE deliveries.id = wanted.id AND deliveries.created_at = wanted.created_at LIMIT 1) AS d
LEFT JOIN LATERAL (SELECT delivery_id, flow_id, leased_by, due_at FROM delivery_queue
                   WHERE delivery_queue.delivery_id = d.id LIMIT 1) AS q ON true
LEFT JOIN LATERAL (SELECT parked_until, parked_reason FROM flow WHERE flow.flow_id = q.flow_id LIMIT 1) AS f ON true
LEFT JOIN LATERAL (SELECT url FROM endpoints WHERE endpoints.id = d.endpoint_id LIMIT 1) AS e ON true
WHERE (@every_organization::boolean OR d.organization_id = @organization_id::text)
  AND (@owner_id::text = '' OR d.owner_id = @owner_id::text)
  AND (@event_type::text = '' OR d.event_type = @event_type::text)
  AND (sqlc.narg(endpoint_id)::uuid IS NULL OR d.endpoint_id = sqlc.narg(endpoint_id)::uuid)
  AND (sqlc.narg(event_id)::uuid IS NULL OR d.event_id = sqlc.narg(event_id)::uuid)
  AND (cardinality(@statuses::text[]) = 0 OR (CASE WHEN q.leased_by IS NOT NULL AND q.due_at > now()
                                                   THEN 'delivering' ELSE d.status END) = ANY (@statuses::text[]))
  AND (@host_pattern::text = '' OR
       (CASE WHEN d.finished_at IS NULL AND NOT d.test THEN coalesce(e.url, d.url) ELSE d.url END) ~ @host_pattern::text)
ORDER BY d.id DESC
LIMIT @page;

-- name: GetBody :one
-- GetBody reads the body of an event's delivery from the event.
SELECT b.body
FROM deliveries d
CROSS JOIN LATERAL (SELECT body FROM delivery_body
                    WHERE delivery_id = coalesce(d.event_id, d.id) AND delivery_body.created_at = d.created_at LIMIT 1) AS b
WHERE d.id = @id AND d.created_at = @created_at;

-- name: ListAttempts :many
SELECT lease_seq, generation, number, outcome, url, remote_ip, response_code, response_body, response_truncated, error,
       retry_after, started_at, dns_ms, connect_ms, tls_ms, first_byte_ms, total_ms, next_attempt_at
FROM attempts
WHERE delivery_id = @id AND created_at = @created_at AND lease_seq > @after
ORDER BY lease_seq
LIMIT @page;

-- The Newest queries find the deliveries of a list, a window at a time. The times select the daily partitions.

-- name: NewestOfOrganization :many
SELECT id FROM deliveries
WHERE organization_id = @organization_id AND id >= @first AND id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY id DESC LIMIT @page;

-- name: NewestDeadLetters :many
SELECT delivery_id AS id FROM dead_letter
WHERE organization_id = @organization_id AND delivery_id >= @first AND delivery_id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY delivery_id DESC LIMIT @page;

-- name: NewestOfAll :many
SELECT id FROM deliveries
WHERE id >= @first AND id < @before AND created_at >= @from_time AND created_at < @to_time
ORDER BY id DESC LIMIT @page;

-- name: NewestDeadLettersOfAll :many
SELECT delivery_id AS id FROM dead_letter
WHERE delivery_id >= @first AND delivery_id < @before AND created_at >= @from_time AND created_at < @to_time
ORDER BY delivery_id DESC LIMIT @page;

-- name: NewestOfEndpoint :many
SELECT id FROM deliveries
WHERE endpoint_id = @endpoint_id AND id >= @first AND id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY id DESC LIMIT @page;

-- name: NewestOfEvent :many
SELECT id FROM deliveries
WHERE event_id = @event_id AND id >= @first AND id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY id DESC LIMIT @page;
