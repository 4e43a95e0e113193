-- name: LockEventTypes :exec
-- LockEventTypes prevents two transactions from adding the last type that an organization may have.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/event_types/' || @organization_id::text, 0));

-- name: HasEventTypes :one
-- HasEventTypes reports whether the organization has at least that many types beside the one named.
SELECT count(*) >= @number::integer AS full
FROM (SELECT FROM event_type
      WHERE organization_id = @organization_id AND type <> @type::text LIMIT @number::integer) AS those;

-- name: PutEventType :one
-- PutEventType returns the time of the first registration.
INSERT INTO event_type (organization_id, type, description, schema, schema_hash, validation, examples, deprecated, created_at,
                        updated_at)
VALUES (@organization_id, @type, @description, @schema, @schema_hash, @validation, @examples, @deprecated, @updated_at, @updated_at)
ON CONFLICT (organization_id, type) DO UPDATE
    SET description = excluded.description, schema = excluded.schema, schema_hash = excluded.schema_hash,
        validation = excluded.validation, examples = excluded.examples, deprecated = excluded.deprecated,
        updated_at = excluded.updated_at
RETURNING created_at, (xmax = 0)::boolean AS added;

-- name: GetEventType :one
SELECT type, description, schema, validation, examples, deprecated, created_at, updated_at
FROM event_type
WHERE organization_id = @organization_id AND type = @type;

-- name: GetEventTypeRule :one
-- GetEventTypeRule is read for each event; the schema only when it is not compiled yet.
SELECT validation, schema_hash
FROM event_type
WHERE organization_id = @organization_id AND type = @type AND schema <> '' AND validation <> 'off';

-- name: ListEventTypes :many
SELECT type, description, (schema <> '')::boolean AS has_schema, validation, deprecated, created_at, updated_at
FROM event_type
WHERE organization_id = @organization_id AND type > @after
ORDER BY type
LIMIT @page;

-- name: DeleteEventType :execrows
DELETE FROM event_type WHERE organization_id = @organization_id AND type = @type;
