-- name: InsertNotification :exec
INSERT INTO notification (id, organization_id, target) VALUES (@id, @organization_id, @target);

-- name: ClaimIdempotencyKey :execrows
-- ClaimIdempotencyKey affects no row if a committed transaction has taken the key. It waits for a transaction that is
-- still open.
INSERT INTO idempotency_key (organization_id, key, fingerprint, notification_id)
VALUES (@organization_id, @key, @fingerprint, @notification_id)
ON CONFLICT (organization_id, key) DO NOTHING;

-- name: IdempotencyKey :one
SELECT fingerprint, notification_id FROM idempotency_key
WHERE organization_id = @organization_id AND key = @key;

-- name: InsertDelivered :exec
-- InsertDelivered inserts a channel that the commit itself delivers.
WITH sent AS (
    INSERT INTO channel_send (notification_id, channel, position, status, attempts, outcome, delivered_count, finished_at, reference, actions_shown, replaced)
    VALUES (@notification_id, @channel, @position, 'delivered', 1, 'ok', 1, now(), @reference, @actions_shown, @replaced)
    RETURNING notification_id, channel
)
INSERT INTO attempt (notification_id, channel, number, outcome, started_at, duration_ms)
SELECT notification_id, channel, 1, 'ok', now(), 0 FROM sent;

-- name: InsertChannel :exec
-- InsertChannel inserts a channel that a dispatcher delivers. Its recipients are added afterwards.
INSERT INTO channel_send (notification_id, channel, position, status, work, deadline_at, truncated, targeted_count, expanding, actions_shown)
VALUES (@notification_id, @channel, @position, 'queued', @work, now() + @lifetime::interval, @truncated, 0, @expanding, @actions_shown);

-- name: InsertRecipient :exec
-- InsertRecipient inserts the one recipient of a channel.
WITH counted AS (
    UPDATE channel_send SET targeted_count = targeted_count + 1
    WHERE channel_send.notification_id = @notification_id AND channel_send.channel = @channel
)
INSERT INTO recipient (notification_id, channel, destination, lane)
VALUES (@notification_id, @channel, @destination, sqlc.narg('lane'));

-- name: EndChannels :exec
-- EndChannels ends channels all of whose recipients have ended; a channel without recipients has failed.
UPDATE channel_send SET
    status = CASE WHEN delivered_count > 0 THEN 'delivered' ELSE 'failed' END,
    outcome = CASE WHEN targeted_count = 0 THEN 'permanent' ELSE outcome END,
    last_error = CASE WHEN targeted_count = 0 AND last_error IS DISTINCT FROM 'superseded' THEN 'no_recipients' ELSE last_error END,
    work = NULL, due_at = NULL, finished_at = clock_timestamp()
WHERE notification_id = ANY(@notification_ids::uuid[]) AND status NOT IN ('delivered', 'failed')
  AND NOT expanding AND delivered_count + failed_count = targeted_count;

-- name: Notification :one
SELECT id, organization_id, created_at, updated_at, updates_id FROM notification
WHERE id = @id AND organization_id = @organization_id;

-- name: ChannelSends :many
-- ChannelSends returns the channels of sends, in the order of the requests.
SELECT notification_id, channel, status, outcome, attempts, last_error,
       targeted_count, delivered_count, failed_count, removed_count, truncated, possibly_duplicated, delivery_id, finished_at,
       actions_shown, replaced, superseded_count
FROM channel_send WHERE notification_id = ANY(@ids::uuid[]) ORDER BY notification_id, position;

-- name: OpenRecipients :many
-- OpenRecipients returns the channels that have not ended: whether one of their recipients is being sent to or is
-- with another service, and when the first is due.
SELECT channel, bool_or(status = 'sending' OR delivery_id IS NOT NULL)::boolean AS sending, min(due_at)::timestamptz AS due_at
FROM recipient WHERE notification_id = @notification_id AND due_at IS NOT NULL GROUP BY channel;

-- name: Attempts :many
SELECT id, channel, sub_id, number, outcome, response_code, error, detail, retry_after_seconds, started_at, duration_ms
FROM attempt WHERE notification_id = @notification_id AND id > @after ORDER BY id LIMIT @count;

-- The Newest queries find the notifications of a list, a window at a time.

-- name: NewestSends :many
SELECT id, created_at FROM notification
WHERE created_at >= @from_time AND (created_at, id) < (@before_time::timestamptz, @before_id::uuid)
ORDER BY created_at DESC, id DESC LIMIT @count;

-- name: NewestSendsOfOrganization :many
SELECT id, created_at FROM notification
WHERE organization_id = @organization_id AND created_at >= @from_time AND (created_at, id) < (@before_time::timestamptz, @before_id::uuid)
ORDER BY created_at DESC, id DESC LIMIT @count;

-- name: NewestFailures :many
SELECT notification_id AS id, created_at FROM send_failure
WHERE created_at >= @from_time AND (created_at, notification_id) < (@before_time::timestamptz, @before_id::uuid)
ORDER BY created_at DESC, notification_id DESC LIMIT @count;

-- name: NewestFailuresOfOrganization :many
SELECT notification_id AS id, created_at FROM send_failure
WHERE organization_id = @organization_id AND created_at >= @from_time AND (created_at, notification_id) < (@before_time::timestamptz, @before_id::uuid)
ORDER BY created_at DESC, notification_id DESC LIMIT @count;

-- name: Notifications :many
SELECT id, organization_id, created_at, updated_at, updates_id FROM notification WHERE id = ANY(@ids::uuid[]);
