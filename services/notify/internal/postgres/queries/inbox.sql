-- name: CountNew :one
-- CountNew locks the inbox, creates it if it is new, and counts one more record.
INSERT INTO inbox_counter AS c (organization_id, user_id, unread, version)
VALUES (@organization_id, @user_id, 1, 1)
ON CONFLICT (organization_id, user_id) DO UPDATE SET unread = c.unread + 1, version = c.version + 1
RETURNING version;

-- name: InsertRecord :exec
-- InsertRecord stores a counted record and its event. The time is taken after the lock, so that times have the order
-- of seq.
WITH stored AS (
    INSERT INTO inbox_record (id, organization_id, user_id, seq, notification_id, subject, message, url, data, actions, created_at)
    VALUES (@id, @organization_id, @user_id, @seq, @notification_id, @subject, @message, @url, @data, sqlc.narg('actions'), clock_timestamp())
    RETURNING id, organization_id, user_id, seq, created_at
)
INSERT INTO inbox_event (organization_id, user_id, seq, event, record_id, unread, occurred_at)
SELECT s.organization_id, s.user_id, s.seq, 'created', s.id, c.unread, s.created_at
FROM stored AS s JOIN inbox_counter AS c ON c.organization_id = s.organization_id AND c.user_id = s.user_id;

-- name: Unread :one
SELECT unread FROM inbox_counter WHERE organization_id = @organization_id AND user_id = @user_id;

-- name: LockInbox :one
SELECT unread FROM inbox_counter WHERE organization_id = @organization_id AND user_id = @user_id FOR UPDATE;

-- name: LockInboxOf :one
-- LockInboxOf locks the inbox of a record. The inbox of a record never changes, so it may be found before the lock;
-- whether the record still exists has to be checked afterwards.
SELECT c.organization_id, c.user_id, c.unread FROM inbox_counter AS c
JOIN inbox_record AS r ON r.organization_id = c.organization_id AND r.user_id = c.user_id
WHERE r.id = @id AND r.organization_id = @organization_id AND (sqlc.narg('user_id')::text IS NULL OR r.user_id = sqlc.narg('user_id'))
FOR UPDATE OF c;

-- name: CountOut :one
-- CountOut subtracts records from the unread count of a locked inbox, and stores the event.
WITH counted AS (
    UPDATE inbox_counter AS c SET unread = c.unread - @fewer::integer, version = c.version + 1
    WHERE c.organization_id = @organization_id AND c.user_id = @user_id
    RETURNING c.organization_id, c.user_id, c.version, c.unread
)
INSERT INTO inbox_event (organization_id, user_id, seq, event, record_id, unread, occurred_at)
SELECT n.organization_id, n.user_id, n.version, @event, sqlc.narg('record_id')::uuid, n.unread, clock_timestamp() FROM counted AS n
RETURNING unread;

-- name: MarkRead :execrows
UPDATE inbox_record SET read_at = clock_timestamp() WHERE id = @id AND read_at IS NULL;

-- name: MarkAllRead :execrows
UPDATE inbox_record SET read_at = clock_timestamp()
WHERE organization_id = @organization_id AND user_id = @user_id AND read_at IS NULL;

-- name: DeleteRecord :one
DELETE FROM inbox_record WHERE id = @id RETURNING read_at;

-- name: Record :one
SELECT id, organization_id, user_id, seq, notification_id, subject, message, url, data, read_at, created_at, actions, updated_at
FROM inbox_record WHERE id = @id;

-- name: Records :many
SELECT id, organization_id, user_id, seq, notification_id, subject, message, url, data, read_at, created_at, actions, updated_at
FROM inbox_record
WHERE organization_id = @organization_id AND user_id = @user_id AND seq < @before
ORDER BY seq DESC LIMIT @count;

-- name: UnreadRecords :many
SELECT id, organization_id, user_id, seq, notification_id, subject, message, url, data, read_at, created_at, actions, updated_at
FROM inbox_record
WHERE organization_id = @organization_id AND user_id = @user_id AND seq < @before AND read_at IS NULL
ORDER BY seq DESC LIMIT @count;

-- name: Place :one
-- Place returns the position of an inbox: its last change and the unread count after it.
SELECT version, unread FROM inbox_counter WHERE organization_id = @organization_id AND user_id = @user_id;

-- name: Events :many
-- Events returns the changes after a position, in order.
SELECT seq, event, record_id, unread, occurred_at FROM inbox_event
WHERE organization_id = @organization_id AND user_id = @user_id AND seq > @after
ORDER BY seq LIMIT @count;

-- name: RecordsOf :many
SELECT id, organization_id, user_id, seq, notification_id, subject, message, url, data, read_at, created_at, actions, updated_at
FROM inbox_record WHERE id = ANY(@ids::uuid[]);

-- name: Versions :many
-- Versions returns the inboxes whose version differs from the known one. An inbox without a version has had no
-- change.
SELECT k.organization_id::text AS organization_id, k.user_id::text AS user_id, c.version FROM (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@users::text[]) AS user_id, unnest(@versions::bigint[]) AS version
) AS k
JOIN inbox_counter AS c ON c.organization_id = k.organization_id AND c.user_id = k.user_id
WHERE c.version <> k.version;
