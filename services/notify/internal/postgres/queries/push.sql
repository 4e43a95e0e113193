-- name: UpsertSubscription :one
-- UpsertSubscription registers a device, or renews it: then its id stays, and its revision is above 1.
INSERT INTO push_subscription AS s
    (sub_id, organization_id, user_id, site_id, platform, origin, endpoint_digest, sealed, vapid_key_id, expires_at, verified_user)
VALUES (@sub_id, @organization_id, @user_id, @site_id, 'web', @origin, @endpoint_digest, @sealed, @vapid_key_id, @expires_at, @verified_user)
ON CONFLICT (organization_id, endpoint_digest) DO UPDATE SET
    user_id = excluded.user_id, site_id = excluded.site_id, sealed = excluded.sealed, vapid_key_id = excluded.vapid_key_id,
    expires_at = excluded.expires_at, verified_user = excluded.verified_user, status = 'active', revision = s.revision + 1, updated_at = now()
RETURNING sub_id, organization_id, user_id, site_id, platform, origin, vapid_key_id, status, expires_at, last_delivered_at, created_at, updated_at, revision,
    (verified_user <> '' AND verified_user = user_id)::boolean AS registered_by_user;

-- name: Subscriptions :many
-- Subscriptions returns registered devices, newest first.
SELECT sub_id, organization_id, user_id, site_id, platform, origin, vapid_key_id, status, expires_at, last_delivered_at, created_at, updated_at,
    (verified_user <> '' AND verified_user = user_id)::boolean AS registered_by_user
FROM push_subscription
WHERE organization_id = @organization_id AND sub_id < @before
    AND (sqlc.narg('user_id')::text IS NULL OR user_id = sqlc.narg('user_id'))
    AND (sqlc.narg('site_id')::text IS NULL OR site_id = sqlc.narg('site_id'))
ORDER BY sub_id DESC LIMIT @count;

-- name: EverySubscription :many
-- EverySubscription is Subscriptions for all organizations, along the primary key.
SELECT sub_id, organization_id, user_id, site_id, platform, origin, vapid_key_id, status, expires_at, last_delivered_at, created_at, updated_at,
    (verified_user <> '' AND verified_user = user_id)::boolean AS registered_by_user
FROM push_subscription
WHERE sub_id < @before
    AND (sqlc.narg('user_id')::text IS NULL OR user_id = sqlc.narg('user_id'))
    AND (sqlc.narg('site_id')::text IS NULL OR site_id = sqlc.narg('site_id'))
ORDER BY sub_id DESC LIMIT @count;

-- name: DeleteSubscription :execrows
DELETE FROM push_subscription
WHERE sub_id = @sub_id AND organization_id = @organization_id AND (sqlc.narg('user_id')::text IS NULL OR user_id = sqlc.narg('user_id'));

-- name: Device :one
-- Device returns the data needed to push to a device.
SELECT sub_id, organization_id, user_id, endpoint_digest, sealed, vapid_key_id, status, revision,
    (verified_user <> '' AND verified_user = user_id)::boolean AS registered_by_user
FROM push_subscription WHERE sub_id = @sub_id;

-- name: RemoveDevice :execrows
DELETE FROM push_subscription WHERE sub_id = @sub_id AND revision = @revision;

-- name: QuarantineDevice :execrows
UPDATE push_subscription SET status = 'quarantined', updated_at = now()
WHERE sub_id = @sub_id AND revision = @revision AND status = 'active';

-- name: TouchDevices :exec
-- TouchDevices records, to the minute, when devices were last pushed to. The time is informational, so rows that
-- another transaction holds are skipped.
UPDATE push_subscription SET last_delivered_at = now() WHERE sub_id IN (
    SELECT s.sub_id FROM push_subscription AS s
    WHERE s.sub_id = ANY(@sub_ids::uuid[]) AND (s.last_delivered_at IS NULL OR s.last_delivered_at < now() - interval '1 minute')
    FOR UPDATE SKIP LOCKED
);

-- name: AddUserRecipients :one
-- AddUserRecipients adds the devices of a user, the newest ones if there are too many. A site excludes the devices of
-- other sites, but not those that were registered without one.
WITH added AS (
INSERT INTO recipient (notification_id, channel, sub_id, destination)
SELECT @notification_id, 'web_push', s.sub_id, s.origin FROM push_subscription AS s
WHERE s.organization_id = @organization_id AND s.user_id = @user_id AND s.status = 'active'
    AND (@site_id::text = '' OR s.site_id IN ('', @site_id))
ORDER BY s.sub_id DESC LIMIT @count
RETURNING 1
), counted AS (
UPDATE channel_send AS c SET targeted_count = (SELECT count(*) FROM added)
WHERE c.notification_id = @notification_id AND c.channel = 'web_push'
)
SELECT count(*)::integer FROM added;

-- name: InsertExpansion :exec
INSERT INTO push_expansion (notification_id, organization_id, site_id) VALUES (@notification_id, @organization_id, @site_id);

-- name: TakeExpansion :one
-- TakeExpansion locks a broadcast that may grow because few of its devices are waiting. The transaction that holds
-- the row's lock adds its next page.
SELECT e.notification_id, e.organization_id, e.site_id, e.after_sub, e.created_at
FROM push_expansion AS e JOIN channel_send AS c ON c.notification_id = e.notification_id AND c.channel = 'web_push'
WHERE c.targeted_count - c.delivered_count - c.failed_count < @waiting::integer
ORDER BY e.notification_id LIMIT 1 FOR UPDATE OF e SKIP LOCKED;

-- name: AddPage :many
-- AddPage adds the next devices of a broadcast, and returns those that were examined.
WITH page AS (
    SELECT s.sub_id, s.origin, s.status, s.site_id FROM push_subscription AS s
    WHERE s.organization_id = @organization_id AND s.sub_id > @after AND s.created_at <= @until
    ORDER BY s.sub_id LIMIT @count
), added AS (
    INSERT INTO recipient (notification_id, channel, sub_id, destination)
    SELECT @notification_id, 'web_push', p.sub_id, p.origin FROM page AS p
    WHERE p.status = 'active' AND (@site_id::text = '' OR p.site_id IN ('', @site_id))
    ON CONFLICT DO NOTHING
    RETURNING sub_id
)
SELECT p.sub_id, (a.sub_id IS NOT NULL)::boolean AS added FROM page AS p LEFT JOIN added AS a ON a.sub_id = p.sub_id ORDER BY p.sub_id;

-- name: MoveExpansion :exec
UPDATE push_expansion SET after_sub = @after_sub WHERE notification_id = @notification_id;

-- name: AddTargets :exec
UPDATE channel_send SET targeted_count = targeted_count + @count::integer
WHERE notification_id = @notification_id AND channel = 'web_push';

-- name: EndExpansion :exec
DELETE FROM push_expansion WHERE notification_id = @notification_id;

-- name: EndExpanding :exec
-- EndExpanding records that the last page was added: from now on the channel may end (EndChannels).
UPDATE channel_send SET expanding = false WHERE notification_id = @notification_id AND channel = 'web_push';

-- name: InsertPushHistory :exec
INSERT INTO push_history (notification_id, organization_id, user_id, site_id, title, body, url, data, broadcast)
VALUES (@notification_id, @organization_id, @user_id, @site_id, @title, @body, @url, @data, @broadcast);

-- name: EndPushHistory :exec
-- EndPushHistory closes the history of sends whose web_push has ended.
UPDATE push_history AS h SET
    status = CASE WHEN c.delivered_count > 0 THEN 'delivered' WHEN c.targeted_count = 0 THEN 'no_devices' ELSE 'failed' END,
    delivered_count = CASE WHEN h.broadcast THEN 0 ELSE c.delivered_count END
FROM channel_send AS c
WHERE h.notification_id = ANY(@notification_ids::uuid[]) AND h.status IS NULL
    AND c.notification_id = h.notification_id AND c.channel = 'web_push' AND c.status IN ('delivered', 'failed');

-- name: PushHistory :many
-- PushHistory returns the history of ended pushes, newest first.
SELECT id, notification_id, user_id, site_id, title, body, url, data, status::text AS status, delivered_count, created_at
FROM push_history
WHERE organization_id = @organization_id AND id < @before AND status IS NOT NULL
    AND (sqlc.narg('user_id')::text IS NULL OR user_id = sqlc.narg('user_id'))
    AND (sqlc.narg('site_id')::text IS NULL OR site_id = sqlc.narg('site_id'))
ORDER BY id DESC LIMIT @count;
