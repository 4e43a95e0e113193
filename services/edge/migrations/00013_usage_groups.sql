-- +goose Up

-- Counts by hour of calls with a user or tags. Each call is in usage_counters, too: the calls of an hour without a user
-- and tags are the difference. The release before writes usage_counters only, so that its calls have none.
CREATE TABLE usage_group (
    organization_id text        NOT NULL,
    hour            timestamptz NOT NULL CHECK (date_trunc('hour', hour, 'UTC') = hour),
    key_id          text        NOT NULL,
    metric          text        NOT NULL CHECK (metric <> ''),
    -- Of user, tags and other, because tags may be too long for an index.
    digest          bytea       NOT NULL CHECK (octet_length(digest) = 16),
    user_id         text        NOT NULL,
    tags            jsonb       NOT NULL CHECK (jsonb_typeof(tags) = 'object'),
    -- What the hour has no more room for; user and tags are then empty.
    other           boolean     NOT NULL CHECK (NOT other OR user_id = '' AND tags = '{}'),
    count           bigint      NOT NULL CHECK (count > 0),
    PRIMARY KEY (organization_id, hour, key_id, metric, digest)
) WITH (fillfactor = 70);
-- Upkeep merges old hours into the first of their day, and drops older ones.
CREATE INDEX usage_group_within_days ON usage_group (hour)
    WHERE hour AT TIME ZONE 'UTC' <> date_trunc('day', hour AT TIME ZONE 'UTC');
CREATE INDEX usage_group_hour ON usage_group USING brin (hour);

-- +goose Down
DROP TABLE usage_group;
