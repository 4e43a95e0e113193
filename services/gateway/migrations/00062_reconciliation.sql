-- +goose Up

-- Invoices beside the ledger. Amounts are pico-USD (1e-12 USD), exact.
CREATE TABLE reconciliation (
    id                 uuid PRIMARY KEY,
    -- Order of insertion, for pages.
    seq                bigint GENERATED ALWAYS AS IDENTITY UNIQUE,
    -- The caller's key, or a hash of the invoice; and a hash of the invoice.
    idempotency_key    text NOT NULL UNIQUE CHECK (idempotency_key <> ''),
    content_hash       bytea NOT NULL,
    period_start       timestamptz NOT NULL,
    period_end         timestamptz NOT NULL,
    status             text NOT NULL CHECK (status IN ('matched', 'delta')),
    tolerance_pico_usd numeric NOT NULL CHECK (tolerance_pico_usd >= 0),
    amount_pico_usd    numeric NOT NULL,
    metered_pico_usd   numeric NOT NULL,
    invoice_ref        text NOT NULL,
    created_at         timestamptz NOT NULL,
    created_by         text NOT NULL,
    CHECK (period_end > period_start)
);

CREATE INDEX reconciliation_created ON reconciliation (created_at);

CREATE TABLE reconciliation_line (
    reconciliation_id  uuid NOT NULL REFERENCES reconciliation (id) ON DELETE CASCADE,
    position           integer NOT NULL CHECK (position >= 0),
    provider           text NOT NULL,
    -- Empty: all models that no other line names.
    model              text NOT NULL,
    amount_pico_usd    numeric NOT NULL,
    metered_pico_usd   numeric NOT NULL,
    estimated_pico_usd numeric NOT NULL,
    calls              bigint NOT NULL CHECK (calls >= 0),
    status             text NOT NULL CHECK (status IN ('matched', 'delta', 'unexplained', 'unbilled')),
    PRIMARY KEY (reconciliation_id, position)
);

-- Rows come in the order of time, so that a summary of their blocks finds a
-- period, and costs a commit next to nothing.
CREATE INDEX ledger_entry_started ON ledger_entry USING brin (started_at);

-- +goose Down

DROP INDEX ledger_entry_started;
DROP TABLE reconciliation_line;
DROP TABLE reconciliation;
