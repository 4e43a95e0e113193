-- +goose Up

-- How far the gateway's billed feed of an organization was read. It is read while
-- the organization has limits of tokens or cents, or credits.
CREATE TABLE spend_feeds (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    -- Records before it don't count.
    since           timestamptz NOT NULL,
    cursor          text        NOT NULL CHECK (octet_length(cursor) <= 512),
    -- The last call that asked for what was spent, and the last reading.
    called_at       timestamptz NOT NULL,
    read_at         timestamptz NOT NULL
);

-- What an organization, and each of its keys with its rotations (key_id is the
-- first), spent in a window. Amounts only grow.
CREATE TABLE spend_windows (
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    key_id          text        NOT NULL, -- empty for the whole organization
    period          text        NOT NULL CHECK (period IN ('minute', 'day', 'month')),
    starts_at       timestamptz NOT NULL,
    tokens          numeric     NOT NULL CHECK (tokens >= 0),
    pico_usd        numeric     NOT NULL CHECK (pico_usd >= 0),
    PRIMARY KEY (organization_id, key_id, period, starts_at)
);
CREATE INDEX spend_windows_age ON spend_windows (period, starts_at);

-- +goose Down
DROP TABLE spend_windows, spend_feeds;
