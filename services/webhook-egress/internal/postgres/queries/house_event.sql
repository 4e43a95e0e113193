-- name: HasHouseEvent :one
SELECT EXISTS (SELECT FROM house_event WHERE organization_id = @organization_id AND event_id = @event_id);

-- name: LockHouseEvents :exec
-- LockHouseEvents makes the sequence of house events the order of their commits. It is the last lock of a transaction.
SELECT pg_advisory_xact_lock(hashtext('house_event'), hashtext(current_schema()));

-- name: AddHouseEvents :execrows
INSERT INTO house_event (organization_id, event_id, owner_id, cloud_event)
SELECT unnest(@organization_ids::text[]), unnest(@event_ids::text[]), unnest(@owner_ids::text[]), unnest(@cloud_events::bytea[])
ON CONFLICT (organization_id, event_id) DO NOTHING;

-- name: ListHouseEvents :many
SELECT sequence, organization_id, owner_id, cloud_event, recorded_at
FROM house_event
WHERE sequence > @after
ORDER BY sequence
LIMIT @page;

-- name: ListHouseEventsOf :many
SELECT sequence, organization_id, owner_id, cloud_event, recorded_at
FROM house_event
WHERE organization_id = @organization_id AND sequence > @after
ORDER BY sequence
LIMIT @page;

-- name: PurgeHouseEvents :execrows
DELETE FROM house_event
WHERE sequence = ANY (ARRAY(
    SELECT h.sequence FROM house_event h
    WHERE h.recorded_at < now() - @retention::interval LIMIT @page FOR UPDATE SKIP LOCKED));
