-- +goose Up

-- Traces: one row for the records of an organization that were stored together, and one for their contents. The tables
-- trace and trace_content are those of earlier releases; their rows are read until they expire.
CREATE TABLE trace_segment (
    -- The id of the first record.
    id              uuid NOT NULL,
    kind            text NOT NULL CHECK (kind IN ('records', 'contents')),
    organization_id text NOT NULL CHECK (organization_id <> ''),
    -- When the first and the last of the requests began.
    first_at        timestamptz NOT NULL,
    last_at         timestamptz NOT NULL,
    -- When the last of the records or contents expires.
    expires_at      timestamptz NOT NULL,
    -- names: hashes of request ids, runs and replayed requests. facets: hashes of operations, providers, models and
    -- statuses.
    names           bigint[] NOT NULL,
    facets          bigint[] NOT NULL,
    -- Records: JSON in an S2 block, without content. Contents: requests and answers, concatenated, each sealed
    -- (AES-256-GCM) under a key that the database never has.
    body            bytea NOT NULL,

    PRIMARY KEY (id, kind),
    CHECK (first_at <= last_at AND last_at < first_at + interval '1 hour'),
    CHECK (expires_at > first_at),
    CHECK (kind = 'records' OR (cardinality(names) = 0 AND cardinality(facets) = 0))
);

CREATE INDEX trace_segment_organization ON trace_segment (organization_id, kind, last_at, id);
CREATE INDEX trace_segment_expires ON trace_segment (expires_at);
-- A search also reads the list of pending entries, so that list is kept short.
CREATE INDEX trace_segment_names ON trace_segment USING gin (names) WITH (gin_pending_list_limit = 256) WHERE kind = 'records';

-- None of these can be made smaller, and the planner has nothing to learn of hashes.
ALTER TABLE trace_segment
    ALTER COLUMN names SET STORAGE EXTERNAL,
    ALTER COLUMN names SET STATISTICS 0,
    ALTER COLUMN facets SET STORAGE EXTERNAL,
    ALTER COLUMN facets SET STATISTICS 0,
    ALTER COLUMN body SET STORAGE EXTERNAL;

-- +goose Down

DROP TABLE trace_segment;
