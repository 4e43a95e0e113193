-- +goose Up

-- Who used which credential, added up from the ledger for the question "whom
-- does a leaked key concern". Rows are folded in behind the commits, in the order
-- of the feed, up to the mark; a reader adds the ledger's rows beyond it. So
-- nothing is paid for at a commit, rows of another release count too, and rows
-- that were there before are folded in by and by.
--
-- Each call is in one bucket of every span: an hour, a day, 30 days (in seconds,
-- counted from 1970), so that any window is a few ranges of whole buckets.
CREATE TABLE credential_use (
    provider               text NOT NULL,
    span                   integer NOT NULL CHECK (span IN (3600, 86400, 2592000)),
    bucket                 timestamptz NOT NULL,
    credential_fingerprint text NOT NULL,
    organization_id        text NOT NULL,
    service                text NOT NULL,
    credential             text NOT NULL,
    calls                  bigint NOT NULL CHECK (calls > 0),
    cost_pico_usd          numeric NOT NULL CHECK (cost_pico_usd >= 0),
    first_used_at          timestamptz NOT NULL,
    last_used_at           timestamptz NOT NULL,

    -- Answers come from the index alone: rows of one question lie far apart.
    PRIMARY KEY (provider, span, bucket, credential_fingerprint, organization_id, service, credential)
        INCLUDE (calls, cost_pico_usd, first_used_at, last_used_at)
);

-- The same by run, for calls of one.
CREATE TABLE credential_use_run (
    provider               text NOT NULL,
    span                   integer NOT NULL CHECK (span IN (3600, 86400, 2592000)),
    bucket                 timestamptz NOT NULL,
    credential_fingerprint text NOT NULL,
    organization_id        text NOT NULL,
    run_id                 text NOT NULL CHECK (run_id <> ''),
    calls                  bigint NOT NULL CHECK (calls > 0),
    first_used_at          timestamptz NOT NULL,
    last_used_at           timestamptz NOT NULL,

    PRIMARY KEY (provider, span, bucket, credential_fingerprint, organization_id, run_id)
        INCLUDE (calls, first_used_at, last_used_at)
);

-- Where in the feed the folding has come to. Whoever folds holds its one row.
CREATE TABLE credential_use_mark (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    txid xid8 NOT NULL,
    seq  bigint NOT NULL
);

INSERT INTO credential_use_mark (txid, seq) VALUES ('0', 0);

-- +goose Down

DROP TABLE credential_use_mark;
DROP TABLE credential_use_run;
DROP TABLE credential_use;
