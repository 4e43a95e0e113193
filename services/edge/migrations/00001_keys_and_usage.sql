-- +goose Up

-- One row, the number of the last change of any key. Whoever changes a key takes
-- the next number under this row's lock, so numbers become visible in order and
-- a reader that has seen n has missed nothing before it.
CREATE TABLE key_feed (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL CHECK (position >= 0)
);
INSERT INTO key_feed (position) VALUES (0);

CREATE TABLE api_keys (
    id              text        PRIMARY KEY CHECK (id LIKE 'key\_%'),
    -- HMAC-SHA-256 of the key under a pepper that is in no database.
    digest          bytea       NOT NULL UNIQUE CHECK (octet_length(digest) = 32),
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    product         text        NOT NULL CHECK (product <> ''),
    permissions     text[]      NOT NULL
        CHECK (cardinality(permissions) > 0 AND permissions <@ ARRAY['read', 'write']),
    name            text        NOT NULL,
    environment     text        NOT NULL CHECK (environment ~ '^[a-z0-9]{1,16}$'),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz CHECK (expires_at > created_at),
    revoked_at      timestamptz,
    last_used_at    timestamptz,
    -- The number of the row's last change in key_feed.
    position        bigint      NOT NULL
);
CREATE INDEX api_keys_by_position ON api_keys (position);
CREATE INDEX api_keys_by_organization ON api_keys (organization_id, id);

-- Successful calls by minute. Counts only grow.
CREATE TABLE usage_counters (
    organization_id text        NOT NULL,
    key_id          text        NOT NULL,
    metric          text        NOT NULL CHECK (metric <> ''),
    minute          timestamptz NOT NULL CHECK (date_trunc('minute', minute, 'UTC') = minute),
    count           bigint      NOT NULL CHECK (count > 0),
    PRIMARY KEY (organization_id, key_id, metric, minute)
) WITH (fillfactor = 70); -- room for updates in place: count is in no index

-- How far each writer (one per start of a replica) has come. A batch counts only
-- if it moves its writer's seq forward, so sending it twice counts it once.
CREATE TABLE usage_writers (
    writer     text        PRIMARY KEY,
    seq        bigint      NOT NULL CHECK (seq > 0),
    updated_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE usage_writers, usage_counters, api_keys, key_feed;
