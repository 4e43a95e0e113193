-- +goose Up

-- Who used which credential, anew: sums by what is asked for, so that an answer
-- about a whole provider reads no more rows than one about a credential. They are
-- folded in from the ledger as those of 00042 were, which stay for the release
-- before and go with the next one.
--
-- Each call is in the sums of its credential and in those of its provider, whose
-- fingerprint is empty; there in one bucket of every span: an hour, a day, 5 days,
-- 30 days (in seconds, counted from 1970).
CREATE TABLE exposure_use (
    provider               text NOT NULL,
    credential_fingerprint text NOT NULL,
    span                   integer NOT NULL CHECK (span IN (3600, 86400, 432000, 2592000)),
    bucket                 timestamptz NOT NULL,
    -- Of an organization (1) or a service (2). A service may have no name.
    kind                   smallint NOT NULL CHECK (kind IN (1, 2)),
    name                   text NOT NULL,
    -- Whose credential it was.
    fleet                  boolean NOT NULL,
    byok                   boolean NOT NULL,
    calls                  bigint NOT NULL CHECK (calls > 0),
    -- Of services alone: their sum is everybody's.
    cost_pico_usd          numeric CHECK (cost_pico_usd >= 0),
    first_used_at          timestamptz NOT NULL,
    last_used_at           timestamptz NOT NULL,

    -- Answers come from the index alone: rows of one question lie far apart.
    PRIMARY KEY (provider, credential_fingerprint, span, bucket, kind, name)
        INCLUDE (fleet, byok, calls, cost_pico_usd, first_used_at, last_used_at),
    CHECK ((kind = 2) = (cost_pico_usd IS NOT NULL))
);

-- A run's calls over all time. Runs are short: most lie within a window as a
-- whole, and need no adding up.
CREATE TABLE exposure_run (
    provider               text NOT NULL,
    credential_fingerprint text NOT NULL,
    organization_id        text NOT NULL,
    run_id                 text NOT NULL CHECK (run_id <> ''),
    calls                  bigint NOT NULL CHECK (calls > 0),
    first_used_at          timestamptz NOT NULL,
    last_used_at           timestamptz NOT NULL,
    -- In which span it fits: whoever looks for the runs of a moment goes no further
    -- back than that.
    lasting                smallint NOT NULL GENERATED ALWAYS AS (CASE
        WHEN extract(epoch FROM last_used_at - first_used_at) < 3600 THEN 0
        WHEN extract(epoch FROM last_used_at - first_used_at) < 86400 THEN 1
        WHEN extract(epoch FROM last_used_at - first_used_at) < 432000 THEN 2
        WHEN extract(epoch FROM last_used_at - first_used_at) < 2592000 THEN 3
        ELSE 4
    END) STORED,

    PRIMARY KEY (provider, credential_fingerprint, organization_id, run_id)
);

CREATE INDEX exposure_run_largest ON exposure_run (provider, credential_fingerprint, calls DESC, organization_id, run_id)
    INCLUDE (first_used_at, last_used_at);
CREATE INDEX exposure_run_began ON exposure_run (provider, credential_fingerprint, lasting, first_used_at)
    INCLUDE (last_used_at, organization_id, run_id);

-- How many runs have their first call in a bucket, to count those of a window.
CREATE TABLE exposure_run_count (
    provider               text NOT NULL,
    credential_fingerprint text NOT NULL,
    span                   integer NOT NULL CHECK (span IN (3600, 86400, 432000, 2592000)),
    bucket                 timestamptz NOT NULL,
    runs                   bigint NOT NULL,

    PRIMARY KEY (provider, credential_fingerprint, span, bucket)
);

-- A run's calls in buckets, for runs that the border of a window cuts.
CREATE TABLE exposure_run_use (
    provider               text NOT NULL,
    credential_fingerprint text NOT NULL,
    organization_id        text NOT NULL,
    run_id                 text NOT NULL CHECK (run_id <> ''),
    span                   integer NOT NULL CHECK (span IN (3600, 86400, 432000, 2592000)),
    bucket                 timestamptz NOT NULL,
    calls                  bigint NOT NULL CHECK (calls > 0),
    first_used_at          timestamptz NOT NULL,
    last_used_at           timestamptz NOT NULL,

    PRIMARY KEY (provider, credential_fingerprint, organization_id, run_id, span, bucket)
        INCLUDE (calls, first_used_at, last_used_at)
);

-- Where in the feed the folding has come to. Whoever folds holds its one row.
CREATE TABLE exposure_mark (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    txid xid8 NOT NULL,
    seq  bigint NOT NULL
);

INSERT INTO exposure_mark (txid, seq) VALUES ('0', 0);

-- +goose Down

DROP TABLE exposure_mark;
DROP TABLE exposure_run_use;
DROP TABLE exposure_run_count;
DROP TABLE exposure_run;
DROP TABLE exposure_use;
