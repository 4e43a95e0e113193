-- +goose Up

-- What became of each request, without content: where its answer came from. Rows
-- are written once, behind the answers, and go when they expire.
CREATE TABLE trace (
    -- The execution's own, as in the ledger.
    id                     uuid PRIMARY KEY,
    request_id             text NOT NULL CHECK (request_id <> ''),
    organization_id        text NOT NULL CHECK (organization_id <> ''),
    -- Empty where there was none, here and below.
    run_id                 text NOT NULL,
    key_id                 text NOT NULL,
    service                text NOT NULL,
    operation              text NOT NULL CHECK (operation IN ('chat', 'embeddings', 'vision', 'images')),
    stream                 boolean NOT NULL,
    status                 text NOT NULL CHECK (status IN ('ok', 'failed', 'cancelled', 'aborted')),
    parent_request_id      text NOT NULL,
    parent_kind            text NOT NULL CHECK (parent_kind IN ('', 'replay', 'cache')),
    w3c_trace_id           text NOT NULL,

    requested_model        text NOT NULL,
    requested_provider     text NOT NULL,
    requested_goal         text NOT NULL,
    provider               text NOT NULL,
    model                  text NOT NULL,
    credential             text NOT NULL CHECK (credential IN ('', 'fleet', 'byok')),
    credential_fingerprint text NOT NULL,
    route                  text NOT NULL CHECK (route IN ('', 'policy', 'requested', 'pin', 'canary', 'affinity')),
    policy_version         text NOT NULL,
    price_version          text NOT NULL,
    data_classification    text NOT NULL,
    approval_ref           text NOT NULL,
    cache_hit              boolean NOT NULL,
    substituted            boolean NOT NULL,

    -- What the caller was told that it used; billed is false where it was told nothing.
    billed                 boolean NOT NULL,
    prompt_tokens          bigint NOT NULL CHECK (prompt_tokens >= 0),
    completion_tokens      bigint NOT NULL CHECK (completion_tokens >= 0),
    cost_pico_usd          bigint NOT NULL CHECK (cost_pico_usd >= 0),
    estimated              boolean NOT NULL,

    error                  text NOT NULL,
    error_class            text NOT NULL,
    http_status            smallint NOT NULL,
    -- The candidates tried, in order.
    attempts               jsonb NOT NULL CHECK (jsonb_typeof(attempts) = 'array'),
    message_count          integer NOT NULL CHECK (message_count >= 0),
    tool_count             integer NOT NULL CHECK (tool_count >= 0),
    request_bytes          integer NOT NULL CHECK (request_bytes >= 0),
    response_bytes         integer NOT NULL CHECK (response_bytes >= 0),
    -- SHA-256; empty where there was nothing, or more than is looked at.
    request_digest         bytea NOT NULL CHECK (octet_length(request_digest) IN (0, 32)),
    response_digest        bytea NOT NULL CHECK (octet_length(response_digest) IN (0, 32)),

    started_at             timestamptz NOT NULL,
    -- To the first content of a stream; 0 for none.
    first_token_ms         double precision NOT NULL,
    duration_ms            double precision NOT NULL,
    expires_at             timestamptz NOT NULL,

    CHECK ((parent_kind = '') = (parent_request_id = '')),
    CHECK ((status = 'ok') = (error = '')),
    CHECK (expires_at > started_at)
);

CREATE INDEX trace_organization ON trace (organization_id, started_at, id);
CREATE INDEX trace_request ON trace (request_id, started_at);
CREATE INDEX trace_run ON trace (organization_id, run_id, started_at) WHERE run_id <> '';
CREATE INDEX trace_parent ON trace (parent_request_id) WHERE parent_kind = 'replay';
CREATE INDEX trace_expires ON trace (expires_at);

-- The request and the answer of some of them, sealed (AES-256-GCM) under a key
-- that the database never has.
CREATE TABLE trace_content (
    id          uuid PRIMARY KEY REFERENCES trace (id) ON DELETE CASCADE,
    -- The key that it is sealed with, by its name.
    key_id      text NOT NULL CHECK (key_id <> ''),
    sealed      bytea NOT NULL,
    -- More came than was kept, of either; replayable is where the request is whole.
    truncated   boolean NOT NULL,
    replayable  boolean NOT NULL,
    captured_at timestamptz NOT NULL,
    expires_at  timestamptz NOT NULL CHECK (expires_at > captured_at)
);

CREATE INDEX trace_content_expires ON trace_content (expires_at);

-- Sealed bytes can't be made smaller.
ALTER TABLE trace_content ALTER COLUMN sealed SET STORAGE EXTERNAL;

-- +goose Down

DROP TABLE trace_content;
DROP TABLE trace;
