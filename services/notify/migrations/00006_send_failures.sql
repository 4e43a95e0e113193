-- +goose NO TRANSACTION

-- The sends of which a channel has failed, so that they are found without reading all that were sent. A table, since an
-- index on the status would make each change of it a change of every index. A trigger adds the row, whichever release
-- ends the channel. Additive. Each statement locks one table that is written to, since sends are accepted and settled in
-- different orders; a try that was broken off is begun again.

-- +goose Up

CREATE TABLE IF NOT EXISTS send_failure (
    notification_id uuid        PRIMARY KEY REFERENCES notification (id) ON DELETE CASCADE,
    -- Those of the notification.
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    created_at      timestamptz NOT NULL
);

CREATE INDEX IF NOT EXISTS send_failure_created ON send_failure (created_at DESC, notification_id DESC);
CREATE INDEX IF NOT EXISTS send_failure_of_organization ON send_failure (organization_id, created_at DESC, notification_id DESC);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_send_failure() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO send_failure (notification_id, organization_id, created_at)
    SELECT n.id, n.organization_id, n.created_at FROM notification AS n WHERE n.id = NEW.notification_id
    ON CONFLICT (notification_id) DO NOTHING;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE OR REPLACE TRIGGER channel_send_failed AFTER UPDATE OF status ON channel_send
    FOR EACH ROW WHEN (NEW.status = 'failed' AND OLD.status <> 'failed')
    EXECUTE FUNCTION note_send_failure();

-- +goose Down

DROP TRIGGER IF EXISTS channel_send_failed ON channel_send;
DROP FUNCTION IF EXISTS note_send_failure();
DROP TABLE IF EXISTS send_failure;
