-- Event types that organizations have registered, with the JSON Schemas of their payloads. Additive: the release before
-- takes all payloads.

-- +goose Up
CREATE TABLE event_type (
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    -- Compared byte by byte: lists and their cursors are in this order.
    type            text        COLLATE "C" NOT NULL CHECK (char_length(type) BETWEEN 1 AND 128 AND type NOT LIKE 'switchyard.%'),
    description     text        NOT NULL CHECK (char_length(description) <= 2048),
    -- JSON; empty for none. schema_hash is its SHA-256.
    schema          bytea       NOT NULL CHECK (octet_length(schema) <= 65536),
    schema_hash     bytea       NOT NULL CHECK (octet_length(schema_hash) = 32),
    validation      text        NOT NULL CHECK (validation IN ('reject', 'warn', 'off')),
    examples        bytea[]     NOT NULL CHECK (cardinality(examples) <= 10),
    deprecated      boolean     NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, type)
);

-- +goose Down
DROP TABLE event_type;
