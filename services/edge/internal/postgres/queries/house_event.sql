-- name: AddHouseEvents :exec
-- AddHouseEvents records events unless they are recorded.
INSERT INTO house_event (event_id, organization_id, type, subject, data, keep_until)
SELECT unnest(@event_ids::text[]), unnest(@organizations::text[]), unnest(@types::text[]), unnest(@subjects::text[]),
    unnest(@data::jsonb[]), unnest(@kept::timestamptz[])
ON CONFLICT (event_id) DO NOTHING;

-- name: TakeHouseEvents :many
-- TakeHouseEvents leases events that are due, oldest first.
WITH due AS MATERIALIZED (
    SELECT h.event_id FROM house_event AS h
    WHERE h.sent_at IS NULL AND h.due_at <= now()
    ORDER BY h.due_at LIMIT @count::int FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE house_event AS h SET attempts = h.attempts + 1, due_at = now() + make_interval(secs => @lease_seconds::double precision)
    FROM due WHERE h.event_id = due.event_id
    RETURNING h.event_id, h.organization_id, h.type, h.subject, h.data, h.occurred_at, h.attempts
)
SELECT event_id, organization_id, type, subject, data, occurred_at, attempts FROM taken ORDER BY occurred_at, event_id;

-- name: MarkHouseEventsSent :exec
UPDATE house_event SET sent_at = now() WHERE event_id = ANY (@event_ids::text[]) AND sent_at IS NULL;

-- name: PostponeHouseEvents :exec
UPDATE house_event AS h SET due_at = now() + make_interval(secs => p.seconds)
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@seconds::double precision[]) AS seconds) AS p
WHERE h.event_id = p.event_id AND h.sent_at IS NULL;

-- name: GiveUpHouseEvents :execrows
UPDATE house_event SET sent_at = 'infinity' WHERE sent_at IS NULL AND occurred_at < now() - make_interval(secs => @age_seconds::double precision);

-- name: PurgeHouseEvents :execrows
DELETE FROM house_event WHERE event_id IN (
    SELECT h.event_id FROM house_event AS h WHERE h.keep_until < now() AND h.sent_at IS NOT NULL LIMIT @count::int FOR UPDATE SKIP LOCKED
);

-- name: HouseEventsWaiting :one
-- HouseEventsWaiting returns how many events are not sent, and the age of the oldest in seconds.
SELECT count(*) AS waiting, coalesce(extract(epoch FROM now() - min(occurred_at)), 0)::double precision AS oldest
FROM house_event WHERE sent_at IS NULL;
