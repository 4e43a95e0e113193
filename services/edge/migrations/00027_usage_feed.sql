-- +goose Up

-- How far the counts of each service have been added to the usage counters. The counters change in the transaction that
-- moves the cursor, so that a row of a service counts once. usage_writers is for the release before.
CREATE TABLE usage_feed (
    service text PRIMARY KEY CHECK (service <> ''),
    -- As the service names the position; empty for its beginning.
    cursor  text NOT NULL,
    read_at timestamptz NOT NULL
);

-- +goose Down
DROP TABLE usage_feed;
