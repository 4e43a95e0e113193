-- name: MatchEndpoints :many
-- MatchEndpoints returns the endpoints that an event is for, active and paused.
SELECT own.id, own.owner_id, own.flow_id, own.url, own.signing_mode, own.active, own.filter, own.moves
FROM (SELECT e.id, e.owner_id, e.flow_id, e.url, e.signing_mode, e.active, e.event_types, e.filter, e.moves FROM endpoints e
      WHERE e.organization_id = @organization_id AND e.deleted_at IS NULL
      OFFSET 0) AS own -- by organization: patterns like `*` select no subset
WHERE own.event_types && @patterns::text[] AND own.id <> @except_endpoint::uuid
  AND (@owner_id::text = '' OR own.owner_id = @owner_id::text)
  AND (NOT @own::boolean OR own.owner_id IS NULL OR own.owner_id = @concerned::text)
ORDER BY own.id;

-- name: FanOut :exec
-- FanOut inserts the event and all of its deliveries in one statement.
WITH fanned AS (
    SELECT unnest(@delivery_ids::uuid[]) AS delivery_id, unnest(@endpoint_ids::uuid[]) AS endpoint_id,
           NULLIF(unnest(@owners::text[]), '') AS owner_id, unnest(@flow_ids::bigint[]) AS flow_id,
           unnest(@urls::text[]) AS url, unnest(@signing_modes::text[]) AS signing_mode,
           NULLIF(unnest(@positions::bigint[]), 0) AS position, NULLIF(unnest(@filter_errors::text[]), '') AS filter_error,
           unnest(@moves::integer[]) AS moves
), event AS (
    INSERT INTO events (id, created_at, organization_id, owner_id, event_type, idempotency_key, matched, skipped_paused,
                        skipped_filtered)
    VALUES (@id::uuid, @created_at::timestamptz, @organization_id, NULLIF(@owner_id::text, ''), @event_type,
            NULLIF(@idempotency_key::text, ''), @matched::integer, @skipped_paused, @skipped_filtered)
), body AS (
    INSERT INTO delivery_body (delivery_id, created_at, body)
    SELECT @id::uuid, @created_at::timestamptz, @body::bytea WHERE @matched::integer > 0
), delivery AS (
    INSERT INTO deliveries (id, created_at, organization_id, owner_id, endpoint_id, event_id, flow_id, url, event_type,
                            signing_mode, headers, sealed_headers, traceparent, status, max_attempts, deadline_at, updated_at,
                            ordering_key, filter_error, endpoint_moves)
    SELECT delivery_id, @created_at::timestamptz, @organization_id, owner_id, endpoint_id, @id::uuid, flow_id, url, @event_type,
           signing_mode, NULLIF(@headers::text, '')::jsonb, @sealed_headers, NULLIF(@traceparent::text, ''), 'queued',
           @max_attempts, NULLIF(@deadline::timestamptz, 'epoch'), @created_at::timestamptz, NULLIF(@ordering_key::text, ''), filter_error, moves
    FROM fanned
)
INSERT INTO delivery_queue (delivery_id, created_at, flow_id, due_at, deadline_at, body_bytes, ordering_key, position)
SELECT delivery_id, @created_at::timestamptz, flow_id, CASE WHEN position > 1 THEN @blocked_until::timestamptz ELSE now() END AS due_at,
       NULLIF(@deadline::timestamptz, 'epoch'), octet_length(@body::bytea), NULLIF(@ordering_key::text, ''), position
FROM fanned;

-- name: GetEvent :one
SELECT matched, skipped_paused, skipped_filtered FROM events WHERE id = @id AND created_at = @created_at;

-- name: ListFanned :many
-- ListFanned returns only the named owner's deliveries, if an owner is named.
SELECT id AS delivery_id, endpoint_id, filter_error FROM deliveries
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
