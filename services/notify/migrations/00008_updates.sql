-- +goose NO TRANSACTION

-- Buttons of messages, and updates of messages. An update of a send is a send of its own that refers to the first one,
-- so that its work is leased, tried and logged as every other. Additive: columns that the release before does not read,
-- and rules that are loosened. Each statement locks one table that is written to, since sends are accepted and settled
-- in different orders; a try that was broken off is begun again.

-- +goose Up

ALTER TABLE notification
    -- What an update is made with: subject and target, sealed. NULL while there is no key to seal with, and for sends of
    -- the release before.
    ADD COLUMN IF NOT EXISTS target bytea,
    -- Of an update: the send that it updates, and its place among the updates of that send, from 1.
    ADD COLUMN IF NOT EXISTS updates_id uuid,
    ADD COLUMN IF NOT EXISTS update_number integer,
    DROP CONSTRAINT IF EXISTS notification_updates,
    ADD CONSTRAINT notification_updates FOREIGN KEY (updates_id) REFERENCES notification (id) ON DELETE CASCADE NOT VALID,
    DROP CONSTRAINT IF EXISTS numbered_update,
    ADD CONSTRAINT numbered_update CHECK ((updates_id IS NULL) = (update_number IS NULL) AND update_number > 0) NOT VALID;

ALTER TABLE channel_send
    -- Where the message is, as its channel names it, so that an update can change it: Slack's channel and ts, the
    -- Message-ID of a mail, the record of an inbox.
    ADD COLUMN IF NOT EXISTS reference text,
    ADD COLUMN IF NOT EXISTS actions_shown smallint NOT NULL DEFAULT 0,
    -- An update has changed the earlier message in place.
    ADD COLUMN IF NOT EXISTS replaced boolean NOT NULL DEFAULT false,
    -- How many of failed_count were not sent to because a newer update was accepted.
    ADD COLUMN IF NOT EXISTS superseded_count integer NOT NULL DEFAULT 0,
    DROP CONSTRAINT IF EXISTS superseded_have_failed,
    ADD CONSTRAINT superseded_have_failed CHECK (superseded_count BETWEEN 0 AND failed_count) NOT VALID;

-- Of an update: the recipient of an earlier message that was being sent when it was accepted. It is not tried before that
-- has ended. No reference: the row may go first.
ALTER TABLE recipient ADD COLUMN IF NOT EXISTS after_id bigint;

ALTER TABLE inbox_record
    -- JSON array of the buttons; NULL for none.
    ADD COLUMN IF NOT EXISTS actions text,
    ADD COLUMN IF NOT EXISTS updated_at timestamptz;

ALTER TABLE inbox_event
    DROP CONSTRAINT IF EXISTS inbox_event_event_check,
    ADD CONSTRAINT inbox_event_event_check CHECK (event IN ('created', 'read', 'updated', 'deleted', 'read_all')) NOT VALID;

-- +goose Down

DELETE FROM inbox_event WHERE event = 'updated';
ALTER TABLE inbox_event DROP CONSTRAINT inbox_event_event_check,
    ADD CONSTRAINT inbox_event_event_check CHECK (event IN ('created', 'read', 'deleted', 'read_all'));
ALTER TABLE inbox_record DROP COLUMN updated_at, DROP COLUMN actions;
ALTER TABLE recipient DROP COLUMN after_id;
ALTER TABLE channel_send DROP COLUMN superseded_count, DROP COLUMN replaced, DROP COLUMN actions_shown, DROP COLUMN reference;
ALTER TABLE notification DROP COLUMN update_number, DROP COLUMN updates_id, DROP COLUMN target;
