-- +goose NO TRANSACTION

-- +goose Up

-- The newest sends of an organization, and of all; the latter has what upkeep reads in notification_age, too. Sends go
-- on while they are built; a try that was broken off leaves an invalid one behind.
DROP INDEX IF EXISTS notification_of_organization;
CREATE INDEX CONCURRENTLY notification_of_organization ON notification (organization_id, created_at DESC, id DESC);
DROP INDEX IF EXISTS notification_created;
CREATE INDEX CONCURRENTLY notification_created ON notification (created_at, id);
DROP INDEX CONCURRENTLY IF EXISTS notification_age;

-- Channels that failed before the trigger of 00006.
INSERT INTO send_failure (notification_id, organization_id, created_at)
SELECT n.id, n.organization_id, n.created_at FROM notification AS n
WHERE EXISTS (SELECT 1 FROM channel_send AS c WHERE c.notification_id = n.id AND c.status = 'failed')
FOR KEY SHARE OF n
ON CONFLICT (notification_id) DO NOTHING;

-- +goose Down

CREATE INDEX IF NOT EXISTS notification_age ON notification (created_at);
DROP INDEX notification_created;
DROP INDEX notification_of_organization;
