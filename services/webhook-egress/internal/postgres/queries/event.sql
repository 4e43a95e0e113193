-- name: LockSubscribers :many
-- LockSubscribers locks the flows of an event's endpoints, as LockFlows does.
SELECT flow_id
FROM flow
WHERE flow_id = ANY (ARRAY(
    SELECT own.flow_id
    FROM (SELECT e.id, e.flow_id, e.owner_id, e.event_types FROM endpoints e
          WHERE e.organization_id = @organization_id AND e.deleted_at IS NULL AND e.active
          OFFSET 0) AS own -- by organization: patterns like `*` select no subset
    WHERE own.event_types && @patterns::text[] AND own.id <> @except_endpoint::uuid
      AND (@owner_id::text = '' OR own.owner_id = @owner_id::text)
      AND (NOT @own::boolean OR own.owner_id IS NULL OR own.owner_id = @concerned::text)))
ORDER BY flow_id
FOR KEY SHARE;

-- name: FanOut :many
-- FanOut inserts the event and all of its deliveries in one statement. Their ids contain the event's millisecond,
-- then 74 random bits (RFC 9562, 5.7).
WITH matched AS MATERIALIZED (
    SELECT own.id AS endpoint_id, own.owner_id, own.flow_id, own.url, own.signing_mode, own.active,
           (substr(replace((@id::uuid)::text, '-', ''), 1, 12) || '7' ||
            substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid AS delivery_id
    FROM (SELECT e.id, e.owner_id, e.flow_id, e.url, e.signing_mode, e.active, e.event_types FROM endpoints e
          WHERE e.organization_id = @organization_id AND e.deleted_at IS NULL
          OFFSET 0) AS own
    WHERE own.event_types && @patterns::text[] AND own.id <> @except_endpoint::uuid
      AND (@owner_id::text = '' OR own.owner_id = @owner_id::text)
      AND (NOT @own::boolean OR own.owner_id IS NULL OR own.owner_id = @concerned::text)
), event AS (
    INSERT INTO events (id, created_at, organization_id, owner_id, event_type, idempotency_key, matched, skipped_paused)
    SELECT @id::uuid, @created_at::timestamptz, @organization_id, NULLIF(@owner_id::text, ''), @event_type, NULLIF(@idempotency_key::text, ''),
           count(*) FILTER (WHERE active), count(*) FILTER (WHERE NOT active)
    FROM matched
), body AS (
    INSERT INTO delivery_body (delivery_id, created_at, body)
    SELECT @id::uuid, @created_at::timestamptz, @body::bytea WHERE EXISTS (SELECT FROM matched WHERE active)
), delivery AS (
    INSERT INTO deliveries (id, created_at, organization_id, owner_id, endpoint_id, event_id, flow_id, url, event_type,
                            signing_mode, headers, sealed_headers, traceparent, status, max_attempts, deadline_at, updated_at)
    SELECT delivery_id, @created_at::timestamptz, @organization_id, owner_id, endpoint_id, @id::uuid, flow_id, url, @event_type,
           signing_mode, NULLIF(@headers::text, '')::jsonb, @sealed_headers, NULLIF(@traceparent::text, ''), 'queued',
           @max_attempts, NULLIF(@deadline::timestamptz, 'epoch'), @created_at::timestamptz
    FROM matched WHERE active
), queued AS (
    INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at, deadline_at, body_bytes)
    SELECT delivery_id, @created_at::timestamptz, flow_id, now(), NULLIF(@deadline::timestamptz, 'epoch'), octet_length(@body::bytea)
    FROM matched WHERE active
)
SELECT delivery_id, endpoint_id, flow_id, active FROM matched ORDER BY endpoint_id;

-- name: GetEvent :one
SELECT matched, skipped_paused FROM events WHERE id = @id AND created_at = @created_at;

-- name: ListFanned :many
-- ListFanned returns only the named owner's deliveries, if an owner is named.
SELECT id AS delivery_id, endpoint_id FROM deliveries
WHERE event_id = @event_id AND created_at = @created_at AND (@owner_id::text = '' OR owner_id = @owner_id::text)
ORDER BY endpoint_id;

-- name: TakeOperational :many
-- TakeOperational removes the notes in the transaction that fans them out.
WITH taken AS (
    DELETE FROM operational_event
    WHERE operational_event_id = ANY (ARRAY(SELECT o.operational_event_id FROM operational_event o
                                            ORDER BY o.operational_event_id LIMIT @page FOR UPDATE SKIP LOCKED))
    RETURNING operational_event_id, organization_id, type, endpoint_id, delivery_id, occurred_at
)
SELECT t.operational_event_id, t.organization_id, t.type, t.endpoint_id, t.delivery_id, t.occurred_at,
       coalesce((SELECT e.owner_id FROM endpoints e WHERE e.id = t.endpoint_id),
                (SELECT d.owner_id FROM deliveries d WHERE d.id = t.delivery_id LIMIT 1), '')::text AS owner_id
FROM taken t
ORDER BY t.operational_event_id;
