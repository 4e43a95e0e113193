-- name: Kept :one
-- Kept returns what an update of a send is made with.
SELECT target FROM notification WHERE id = @id AND organization_id = @organization_id AND updates_id IS NULL;

-- name: LockUpdated :execrows
-- LockUpdated locks a send that is to be updated, and with it the order of its updates.
SELECT id FROM notification WHERE id = @id AND organization_id = @organization_id AND updates_id IS NULL FOR NO KEY UPDATE;

-- name: LockUpdates :many
-- LockUpdates locks the updates of a locked send, in order. A result of one is settled before or after, never beside.
SELECT id FROM notification WHERE updates_id = @id::uuid ORDER BY update_number FOR NO KEY UPDATE;

-- name: InsertUpdate :exec
INSERT INTO notification (id, organization_id, updates_id, update_number)
VALUES (@id, @organization_id, @updates_id::uuid, @update_number::integer);

-- name: UpdateNumber :one
SELECT updates_id, update_number FROM notification WHERE id = @id;

-- name: SupersedeWaiting :exec
-- SupersedeWaiting ends the recipients of sends that nothing is being sent to, because a newer update takes their place.
WITH ended AS (
    UPDATE recipient SET status = 'failed', due_at = NULL
    WHERE recipient.notification_id = ANY(@ids::uuid[]) AND status IN ('queued', 'retrying') AND delivery_id IS NULL
    RETURNING recipient.notification_id, recipient.channel
), summed AS (
    SELECT e.notification_id, e.channel, count(*)::integer AS ended FROM ended AS e GROUP BY e.notification_id, e.channel
)
UPDATE channel_send AS c SET
    failed_count = c.failed_count + s.ended, superseded_count = c.superseded_count + s.ended, last_error = 'superseded'
FROM summed AS s WHERE c.notification_id = s.notification_id AND c.channel = s.channel;

-- name: SupersedeExpansions :exec
-- SupersedeExpansions ends broadcasts whose devices are still being added.
WITH ended AS (
    DELETE FROM push_expansion WHERE notification_id = ANY(@ids::uuid[]) RETURNING notification_id
)
UPDATE channel_send AS c SET expanding = false, last_error = 'superseded'
FROM ended AS e WHERE c.notification_id = e.notification_id AND c.channel = 'web_push';

-- name: SupersedeSettled :many
-- SupersedeSettled ends those recipients that would be tried again although a newer update was accepted meanwhile.
UPDATE recipient AS r SET status = 'failed', due_at = NULL
FROM notification AS n
WHERE r.id = ANY(@ids::bigint[]) AND n.id = r.notification_id AND r.status IN ('queued', 'retrying') AND r.delivery_id IS NULL
    AND EXISTS (
        SELECT 1 FROM notification AS u
        WHERE u.updates_id = coalesce(n.updates_id, n.id) AND u.update_number > coalesce(n.update_number, 0))
RETURNING r.id;

-- name: LinkRecipients :exec
-- LinkRecipients makes the recipients of an update wait for those of earlier messages that are being sent to. Should
-- their end not release them, they look for it after the lease.
UPDATE recipient AS r SET after_id = p.id, due_at = greatest(p.due_at, now())
FROM recipient AS p
WHERE r.notification_id = @id AND p.notification_id = ANY(@earlier::uuid[]) AND p.channel = r.channel
    AND p.due_at IS NOT NULL AND p.sub_id IS NOT DISTINCT FROM r.sub_id;

-- name: LinkPage :exec
-- LinkPage is LinkRecipients for devices of a page of a broadcast.
UPDATE recipient AS r SET after_id = p.id, due_at = greatest(p.due_at, now())
FROM notification AS n
JOIN notification AS e ON e.id = n.updates_id OR (e.updates_id = n.updates_id AND e.update_number < n.update_number)
JOIN recipient AS p ON p.notification_id = e.id
WHERE n.id = @id AND n.updates_id IS NOT NULL AND r.notification_id = n.id AND r.sub_id = ANY(@sub_ids::uuid[])
    AND p.sub_id = r.sub_id AND p.due_at IS NOT NULL;

-- name: DoubtRecipients :exec
-- DoubtRecipients marks the recipients of an update that an earlier message may have reached whose place is unknown.
UPDATE recipient AS r SET doubtful = true
FROM recipient AS p
WHERE r.notification_id = @id AND r.sub_id IS NULL AND r.channel <> 'web_push'
    AND p.notification_id = ANY(@earlier::uuid[]) AND p.channel = r.channel AND p.doubtful AND p.status = 'failed'
    AND NOT EXISTS (
        SELECT 1 FROM channel_send AS c WHERE c.notification_id = @first AND c.channel = r.channel AND c.reference IS NOT NULL);

-- name: ReleaseRecipients :exec
-- ReleaseRecipients makes due what waits for recipients that have ended.
UPDATE recipient AS w SET due_at = clock_timestamp()
FROM recipient AS r
WHERE w.after_id = ANY(@ids::bigint[]) AND w.due_at IS NOT NULL AND w.status <> 'sending' AND r.id = w.after_id AND r.due_at IS NULL;

-- name: KeepReferences :exec
-- KeepReferences stores, with the first message of each, where a channel has put an update that came instead of it.
UPDATE channel_send AS c SET reference = s.reference
FROM (SELECT unnest(@updates_ids::uuid[]) AS id, unnest(@refs::text[]) AS reference) AS s
WHERE c.notification_id = s.id AND c.channel = @channel::text AND c.reference IS NULL;

-- name: RecordOfSend :one
-- RecordOfSend returns the inbox record of a send; NULL for one of the release before.
SELECT reference FROM channel_send WHERE notification_id = @notification_id AND channel = 'in_app';

-- name: ChangeRecord :execrows
-- ChangeRecord changes what a record says. Without a subject it keeps its own.
UPDATE inbox_record SET
    subject = CASE WHEN @subject::text = '' THEN subject ELSE @subject END, message = @message, actions = sqlc.narg('actions'),
    updated_at = clock_timestamp()
WHERE id = @id;

-- name: InsertGone :exec
-- InsertGone inserts the in_app channel of an update whose record was deleted.
WITH ended AS (
    INSERT INTO channel_send (notification_id, channel, position, status, attempts, outcome, last_error, failed_count, finished_at)
    VALUES (@notification_id, 'in_app', @position, 'failed', 1, 'gone', 'record_deleted', 1, now())
    RETURNING notification_id, channel
), noted AS (
    INSERT INTO send_failure (notification_id, organization_id, created_at)
    SELECT n.id, n.organization_id, n.created_at FROM notification AS n WHERE n.id = @notification_id
    ON CONFLICT (notification_id) DO NOTHING
)
INSERT INTO attempt (notification_id, channel, number, outcome, error, started_at, duration_ms)
SELECT notification_id, channel, 1, 'gone', 'record_deleted', now(), 0 FROM ended;

-- name: UpdatesOf :many
SELECT id, update_number, created_at, updated_at FROM notification WHERE updates_id = @id::uuid ORDER BY update_number;
