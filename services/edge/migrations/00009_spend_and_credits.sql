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

-- Calls that models are billed for need credits of the organization.
ALTER TABLE plans ADD COLUMN prepaid boolean NOT NULL DEFAULT false;

-- Prepaid credits of organizations, in pico-USD.
CREATE TABLE credit_grants (
    id              text        PRIMARY KEY CHECK (id LIKE 'crd\_%'),
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    idempotency_key text        NOT NULL CHECK (idempotency_key ~ '^[!-~]{1,128}$'),
    pico_usd        bigint      NOT NULL CHECK (pico_usd > 0),
    -- The sum of the grant's entries.
    spent_pico_usd  bigint      NOT NULL DEFAULT 0 CHECK (spent_pico_usd BETWEEN 0 AND pico_usd),
    note            text        NOT NULL CHECK (octet_length(note) <= 1000),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL CHECK (expires_at > created_at),
    UNIQUE (organization_id, idempotency_key)
);

-- What was spent of each grant, a row for each page of the billed feed; without
-- a grant, what no credits covered. Rows are never changed.
CREATE TABLE credit_entries (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    grant_id        text        REFERENCES credit_grants (id),
    pico_usd        bigint      NOT NULL CHECK (pico_usd > 0),
    recorded_at     timestamptz NOT NULL
);
CREATE INDEX credit_entries_organization ON credit_entries (organization_id, grant_id);

-- +goose StatementBegin
CREATE FUNCTION credit_entries_are_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'credit_entries is append-only' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER credit_entries_are_final BEFORE UPDATE OR DELETE OR TRUNCATE ON credit_entries
    FOR EACH STATEMENT EXECUTE FUNCTION credit_entries_are_final();

-- +goose Down
DROP TABLE credit_entries, credit_grants;
DROP FUNCTION credit_entries_are_final;
ALTER TABLE plans DROP COLUMN prepaid;
DROP TABLE spend_windows, spend_feeds;
