-- The paths that share a flow take turns to probe their host, however many deliveries of one of them wait. Additive: the
-- previous release queues rows without a path. They have one turn of each cycle together, which is for the oldest row.

-- +goose Up

ALTER TABLE delivery_queue
    -- A hash of the path, only of rows whose flow several paths share.
    ADD COLUMN path bigint;

CREATE INDEX delivery_queue_path ON delivery_queue (flow_id, path, due_at) WHERE path IS NOT NULL;

ALTER TABLE flow
    -- The path that probed the host last; the smallest number before the first one.
    ADD COLUMN probed_path bigint NOT NULL DEFAULT -9223372036854775808;

-- +goose Down

ALTER TABLE flow DROP COLUMN probed_path;
DROP INDEX delivery_queue_path;
ALTER TABLE delivery_queue DROP COLUMN path;
