-- +goose Up

-- The billed feed: one row for each billed completion. Rows are never changed.
CREATE TABLE ledger_entry (
    -- The execution's own id. Callers may repeat a request id; a writer that is
    -- unsure whether it committed repeats this one.
    id                     uuid PRIMARY KEY,
    -- Order of insertion, and the transaction that inserted. A reader that stays
    -- below the oldest transaction in progress, ordered by both, sees each row once.
    seq                    bigint GENERATED ALWAYS AS IDENTITY,
    txid                   xid8 NOT NULL DEFAULT pg_current_xact_id(),

    request_id             text NOT NULL CHECK (request_id <> ''),
    organization_id        text NOT NULL CHECK (organization_id <> ''),
    -- Empty where the caller named none.
    key_id                 text NOT NULL,
    service                text NOT NULL,
    run_id                 text NOT NULL,
    operation              text NOT NULL CHECK (operation IN ('chat', 'embeddings', 'vision', 'images', 'probe')),

    requested_provider     text NOT NULL,
    requested_model        text NOT NULL,
    requested_goal         text NOT NULL,
    provider               text NOT NULL CHECK (provider <> ''),
    model                  text NOT NULL CHECK (model <> ''),
    credential             text NOT NULL CHECK (credential IN ('fleet', 'byok')),
    -- Keyed hash of the credential, never the credential.
    credential_fingerprint text NOT NULL,
    substituted            boolean NOT NULL,
    cache_hit              boolean NOT NULL DEFAULT false,
    attempts               smallint NOT NULL CHECK (attempts >= 0),

    -- Disjoint buckets: no token is in two of them.
    input_tokens           bigint NOT NULL CHECK (input_tokens >= 0),
    cache_read_tokens      bigint NOT NULL CHECK (cache_read_tokens >= 0),
    cache_write_tokens     bigint NOT NULL CHECK (cache_write_tokens >= 0),
    output_tokens          bigint NOT NULL CHECK (output_tokens >= 0),
    reasoning_tokens       bigint NOT NULL CHECK (reasoning_tokens >= 0),
    images                 bigint NOT NULL CHECK (images >= 0),
    -- Where the counts come from: the provider's final report, its report up to
    -- where the answer was cut off, or our own count.
    usage_state            text NOT NULL CHECK (usage_state IN ('reported', 'partial', 'estimated')),

    -- 1e-12 USD; empty version: no price was known and nothing is billed.
    cost_pico_usd          bigint NOT NULL CHECK (cost_pico_usd >= 0),
    price_version          text NOT NULL,
    outcome                text NOT NULL CHECK (outcome IN ('completed', 'cancelled', 'aborted', 'interrupted')),

    started_at             timestamptz NOT NULL,
    ended_at               timestamptz NOT NULL,
    recorded_at            timestamptz NOT NULL DEFAULT now(),

    CHECK (price_version <> '' OR cost_pico_usd = 0)
);

CREATE UNIQUE INDEX ledger_entry_feed ON ledger_entry (txid, seq);
CREATE INDEX ledger_entry_organization ON ledger_entry (organization_id, recorded_at);
CREATE INDEX ledger_entry_request ON ledger_entry (request_id);

-- +goose Down

DROP TABLE ledger_entry;
