-- +goose Up

-- How many calls customers are billed for, written with the records of the calls. Control reads the rows and adds them to
-- its counters; rows that it has read are deleted after a week.
CREATE TABLE call_count (
    -- Order of insertion, and the transaction that inserted. A reader that stays below the oldest transaction in
    -- progress, ordered by both, sees each row once.
    seq             bigint GENERATED ALWAYS AS IDENTITY,
    txid            xid8 NOT NULL DEFAULT pg_current_xact_id(),
    -- The id of a single call's count, which a writer repeats that is unsure whether it committed. Absent where the
    -- transaction also stores the calls' own records.
    id              uuid,
    organization_id text NOT NULL CHECK (organization_id <> ''),
    key_id          text NOT NULL,
    metric          text NOT NULL CHECK (metric <> ''),
    minute          timestamptz NOT NULL CHECK (date_trunc('minute', minute, 'UTC') = minute),
    user_id         text NOT NULL,
    tags            jsonb NOT NULL CHECK (jsonb_typeof(tags) = 'object'),
    calls           bigint NOT NULL CHECK (calls > 0)
);

CREATE UNIQUE INDEX call_count_feed ON call_count (txid, seq);
CREATE UNIQUE INDEX call_count_id ON call_count (id) WHERE id IS NOT NULL;

-- +goose Down

DROP TABLE call_count;
