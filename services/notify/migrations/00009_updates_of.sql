-- +goose NO TRANSACTION

-- +goose Up

-- The updates of a send, and what waits for a recipient; both are empty for sends without updates. Sends go on while they
-- are built; a try that was broken off leaves an invalid one behind.
DROP INDEX IF EXISTS notification_updates_of;
CREATE UNIQUE INDEX CONCURRENTLY notification_updates_of ON notification (updates_id, update_number) WHERE updates_id IS NOT NULL;
DROP INDEX IF EXISTS recipient_after;
CREATE INDEX CONCURRENTLY recipient_after ON recipient (after_id) WHERE after_id IS NOT NULL;

ALTER TABLE notification VALIDATE CONSTRAINT notification_updates;
ALTER TABLE notification VALIDATE CONSTRAINT numbered_update;
ALTER TABLE channel_send VALIDATE CONSTRAINT superseded_have_failed;
ALTER TABLE inbox_event VALIDATE CONSTRAINT inbox_event_event_check;

-- +goose Down

DROP INDEX recipient_after;
DROP INDEX notification_updates_of;
