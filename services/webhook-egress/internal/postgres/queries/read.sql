-- name: GetDelivery :one
SELECT d.id, d.created_at, d.organization_id, d.owner_id, d.endpoint_id, d.event_id, d.url, d.event_type,
       d.signing_mode, d.idempotency_key, d.status, d.generation, d.attempts, d.max_attempts, d.last_response_code,
       d.last_error, d.deadline_at, d.updated_at, d.finished_at,
       (q.leased_by IS NOT NULL AND q.due_at > now())::boolean AS leased,
       -- The epoch stands for none.
       (CASE WHEN q.delivery_id IS NULL OR (q.leased_by IS NOT NULL AND q.due_at > now()) THEN 'epoch'
             WHEN f.parked_until = 'infinity' THEN 'epoch' -- its endpoint is paused
             ELSE greatest(q.due_at, f.parked_until) END)::timestamptz AS next_attempt_at,
       coalesce(CASE WHEN f.parked_until > now() AND q.delivery_id IS NOT NULL THEN f.parked_reason END, '')::text
           AS parked_reason
FROM deliveries d
LEFT JOIN delivery_queue q ON q.delivery_id = d.id
LEFT JOIN flow f ON f.flow_id = d.flow_id
WHERE d.id = @id AND d.created_at = @created_at AND d.organization_id = @organization_id
  AND (@owner_id::text = '' OR d.owner_id = @owner_id::text);

-- name: GetBody :one
-- That of an event's delivery is the event's.
SELECT b.body
FROM deliveries d JOIN delivery_body b ON b.delivery_id = coalesce(d.event_id, d.id) AND b.created_at = d.created_at
WHERE d.id = @id AND d.created_at = @created_at;

-- name: ListAttempts :many
SELECT lease_seq, generation, number, outcome, url, remote_ip, response_code, response_body, response_truncated, error,
       retry_after, started_at, dns_ms, connect_ms, tls_ms, first_byte_ms, total_ms, next_attempt_at
FROM attempts
WHERE delivery_id = @id AND created_at = @created_at AND lease_seq > @after
ORDER BY lease_seq
LIMIT @page;
