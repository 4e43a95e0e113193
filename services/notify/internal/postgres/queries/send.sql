-- name: InsertNotification :exec
INSERT INTO notification (id, organization_id) VALUES (@id, @organization_id);

-- name: ClaimIdempotencyKey :execrows
-- No row means that the key is taken, by a transaction that has committed: one
-- that is still open is waited for.
INSERT INTO idempotency_key (organization_id, key, fingerprint, notification_id)
VALUES (@organization_id, @key, @fingerprint, @notification_id)
ON CONFLICT (organization_id, key) DO NOTHING;

-- name: IdempotencyKey :one
SELECT fingerprint, notification_id FROM idempotency_key
WHERE organization_id = @organization_id AND key = @key;

-- name: InsertDelivered :exec
-- A channel that the commit itself delivers.
WITH sent AS (
    INSERT INTO channel_send (notification_id, channel, position, status, attempts, outcome, delivered_count, finished_at)
    VALUES (@notification_id, @channel, @position, 'delivered', 1, 'ok', 1, now())
    RETURNING notification_id, channel
)
INSERT INTO attempt (notification_id, channel, number, outcome, started_at, duration_ms)
SELECT notification_id, channel, 1, 'ok', now(), 0 FROM sent;

-- name: Notification :one
SELECT id, organization_id, created_at, updated_at FROM notification
WHERE id = @id AND organization_id = @organization_id;

-- name: ChannelSends :many
SELECT channel, status, outcome, attempts, last_error, due_at,
       targeted_count, delivered_count, failed_count, removed_count, truncated, delivery_id, finished_at
FROM channel_send WHERE notification_id = @notification_id ORDER BY position;

-- name: Attempts :many
SELECT id, channel, sub_id, number, outcome, response_code, error, retry_after_seconds, started_at, duration_ms
FROM attempt WHERE notification_id = @notification_id AND id > @after ORDER BY id LIMIT @count;
