-- name: AddRejectedKeys :exec
-- AddRejectedKeys records an event for each key that a push service refuses, once a day.
WITH recorded AS MATERIALIZED (
    SELECT house_event_add('', 'switchyard.push_key.rejected', 'push_service/' || r.push_service,
        concat_ws(' ', r.key_id, (now() AT TIME ZONE 'UTC')::date),
        jsonb_build_object('push_service', r.push_service, 'key_id', r.key_id, 'status', r.status, 'rejected_at', now())) AS done
    FROM (SELECT unnest(@push_services::text[]) AS push_service, unnest(@key_ids::text[]) AS key_id, unnest(@statuses::integer[]) AS status) AS r
    ORDER BY r.push_service, r.key_id
)
SELECT count(*) FROM recorded;

-- name: TakeHouseEvents :many
-- TakeHouseEvents leases events that are due, oldest first.
WITH due AS MATERIALIZED (
    SELECT h.event_id FROM house_event AS h
    WHERE h.sent_at IS NULL AND h.due_at <= now()
    ORDER BY h.due_at LIMIT @count FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE house_event AS h SET attempts = h.attempts + 1, due_at = now() + @lease::interval
    FROM due WHERE h.event_id = due.event_id
    RETURNING h.event_id, h.organization_id, h.type, h.subject, h.data, h.occurred_at, h.attempts
)
SELECT event_id, organization_id, type, subject, data, occurred_at, attempts FROM taken ORDER BY occurred_at, event_id;

-- name: MarkHouseEventsSent :exec
UPDATE house_event SET sent_at = now() WHERE event_id = ANY(@event_ids::text[]) AND sent_at IS NULL;

-- name: PostponeHouseEvents :exec
UPDATE house_event AS h SET due_at = now() + p.delay
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@delays::interval[]) AS delay) AS p
WHERE h.event_id = p.event_id AND h.sent_at IS NULL;

-- name: GiveUpHouseEvents :execrows
UPDATE house_event SET sent_at = 'infinity' WHERE sent_at IS NULL AND occurred_at < now() - @age::interval;

-- name: PurgeHouseEvents :execrows
DELETE FROM house_event WHERE event_id IN (
    SELECT h.event_id FROM house_event AS h WHERE h.keep_until < now() AND h.sent_at IS NOT NULL LIMIT @count FOR UPDATE SKIP LOCKED
);

-- name: HouseEventsWaiting :one
-- HouseEventsWaiting returns how many events are not sent, and the age of the oldest in seconds.
SELECT count(*) AS waiting, coalesce(extract(epoch FROM now() - min(occurred_at)), 0)::double precision AS oldest
FROM house_event WHERE sent_at IS NULL;
