-- +goose Up

-- The growth of counts by the hour, which exports read. A row never changes, and those of an organization, metric and
-- hour form a chain: each begins at the count at which the one before ended, so that no count is in two rows.
CREATE TABLE export_count (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    metric          text        NOT NULL CHECK (metric <> ''),
    hour            timestamptz NOT NULL CHECK (date_trunc('hour', hour, 'UTC') = hour),
    counted_before  bigint      NOT NULL CHECK (counted_before >= 0),
    count           bigint      NOT NULL CHECK (count > 0),
    collected_at    timestamptz NOT NULL,
    UNIQUE (hour, organization_id, metric, counted_before)
);

-- Which replica collects counts or sends to a destination. What it writes counts only under the current fence.
CREATE TABLE export_lease (
    name       text        PRIMARY KEY CHECK (name <> ''),
    holder     text        NOT NULL CHECK (holder <> ''),
    fence      bigint      NOT NULL CHECK (fence > 0),
    expires_at timestamptz NOT NULL
) WITH (fillfactor = 50);

-- How far a destination has come with a source: of usage from since on, before until if that is given (a back-fill).
CREATE TABLE export_cursor (
    id            bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    destination   text        NOT NULL CHECK (destination <> ''),
    source        text        NOT NULL CHECK (source IN ('counts', 'ledger')),
    since         timestamptz NOT NULL,
    until         timestamptz CHECK (until > since),
    -- Where the source continues; empty for its beginning.
    position      text        NOT NULL,
    sent          bigint      NOT NULL DEFAULT 0 CHECK (sent >= 0),
    refused       bigint      NOT NULL DEFAULT 0 CHECK (refused >= 0),
    -- Why the last try failed, empty if it didn't, and since when tries fail.
    failure       text        NOT NULL DEFAULT '',
    failing_since timestamptz,
    created_at    timestamptz NOT NULL DEFAULT now(),
    updated_at    timestamptz NOT NULL DEFAULT now(),
    finished_at   timestamptz,
    CONSTRAINT export_cursor_ends CHECK (finished_at IS NULL OR until IS NOT NULL),
    CONSTRAINT export_cursor_failure CHECK ((failure = '') = (failing_since IS NULL))
) WITH (fillfactor = 50);
CREATE UNIQUE INDEX export_cursor_live ON export_cursor (destination, source) WHERE until IS NULL;
CREATE INDEX export_cursor_destination ON export_cursor (destination, id);

-- Events that a destination refuses for what they are. They hold up no others.
CREATE TABLE export_refusal (
    destination     text        NOT NULL,
    identifier      text        NOT NULL CHECK (identifier <> ''),
    source          text        NOT NULL CHECK (source IN ('counts', 'ledger')),
    organization_id text        NOT NULL,
    metric          text        NOT NULL,
    value           text        NOT NULL,
    occurred_at     timestamptz NOT NULL,
    reason          text        NOT NULL CHECK (reason <> ''),
    refused_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (destination, identifier)
);

-- +goose Down
DROP TABLE export_refusal, export_cursor, export_lease, export_count;
