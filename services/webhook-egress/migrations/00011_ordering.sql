-- Ordering keys: of the deliveries of one flow with the same key, the next one is attempted only after the one before
-- has ended. Additive. The release before enqueues no such delivery; one that it ends releases no successor, which
-- upkeep of this release then does.

-- +goose Up

-- A row for each ordering key with queued deliveries. A transaction that adds or ends such a delivery locks it first.
CREATE TABLE ordering_key (
    flow_id       bigint NOT NULL,
    key           text   NOT NULL CHECK (char_length(key) BETWEEN 1 AND 128),
    -- The position of the delivery that was added last.
    last_position bigint NOT NULL CHECK (last_position > 0),
    PRIMARY KEY (flow_id, key)
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- Of the rows with one key, only the one with the lowest position may be taken. The others are blocked: their due_at is
-- the year 2200, so that no claim reads them. It isn't infinity, because the release before cannot read that.
ALTER TABLE delivery_queue
    ADD COLUMN ordering_key text,
    ADD COLUMN position     bigint,
    ADD CHECK ((ordering_key IS NULL) = (position IS NULL));

CREATE UNIQUE INDEX delivery_queue_order ON delivery_queue (flow_id, ordering_key, position) WHERE ordering_key IS NOT NULL;

-- NOT VALID: the column is null in all existing rows, which need not be read to check it.
ALTER TABLE deliveries
    ADD COLUMN ordering_key text;
ALTER TABLE deliveries
    ADD CONSTRAINT deliveries_ordering_key_check CHECK (char_length(ordering_key) BETWEEN 1 AND 128) NOT VALID;

-- +goose Down
ALTER TABLE deliveries DROP COLUMN ordering_key;
DROP INDEX delivery_queue_order;
UPDATE delivery_queue SET due_at = now() WHERE ordering_key IS NOT NULL AND due_at > now() AND leased_by IS NULL;
ALTER TABLE delivery_queue DROP COLUMN ordering_key, DROP COLUMN position;
DROP TABLE ordering_key;
