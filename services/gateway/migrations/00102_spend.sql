-- +goose Up

-- What organizations spend, aggregated from the ledger for reports. Rows are aggregated after their commits, in the order
-- of the feed, up to the mark; a reader adds the ledger's rows beyond it. So the sums equal the ledger at every moment,
-- no commit pays for them, and rows of another release count too.
--
-- Each row of the ledger is in one bucket of every span, by the UTC time of its recording. Old hours and days are deleted;
-- months stay.
CREATE TABLE spend_rollup (
    organization_id         text NOT NULL,
    span                    text NOT NULL CHECK (span IN ('hour', 'day', 'month')),
    bucket                  timestamptz NOT NULL,
    -- The beginning of the SHA-256 of the group's values, which may be too long for an index; zeros for the rest of a
    -- bucket that has as many groups as it may have.
    group_id                bytea NOT NULL CHECK (octet_length(group_id) = 16),
    is_rest                 boolean NOT NULL,
    provider                text NOT NULL,
    model                   text NOT NULL,
    key_id                  text NOT NULL,
    user_id                 text NOT NULL,
    tags                    jsonb NOT NULL CHECK (jsonb_typeof(tags) = 'object'),
    calls                   bigint NOT NULL CHECK (calls > 0),
    cost_pico_usd           numeric NOT NULL CHECK (cost_pico_usd >= 0),
    input_tokens            bigint NOT NULL CHECK (input_tokens >= 0),
    cache_read_tokens       bigint NOT NULL CHECK (cache_read_tokens >= 0),
    cache_write_tokens      bigint NOT NULL CHECK (cache_write_tokens >= 0),
    cache_write_long_tokens bigint NOT NULL CHECK (cache_write_long_tokens >= 0),
    image_input_tokens      bigint NOT NULL CHECK (image_input_tokens >= 0),
    audio_input_tokens      bigint NOT NULL CHECK (audio_input_tokens >= 0),
    output_tokens           bigint NOT NULL CHECK (output_tokens >= 0),
    reasoning_tokens        bigint NOT NULL CHECK (reasoning_tokens >= 0),
    image_output_tokens     bigint NOT NULL CHECK (image_output_tokens >= 0),
    audio_output_tokens     bigint NOT NULL CHECK (audio_output_tokens >= 0),
    images                  bigint NOT NULL CHECK (images >= 0),
    characters              bigint NOT NULL CHECK (characters >= 0),
    audio_seconds           bigint NOT NULL CHECK (audio_seconds >= 0),
    searches                bigint NOT NULL CHECK (searches >= 0),

    PRIMARY KEY (organization_id, span, bucket, group_id),
    CHECK (is_rest = (group_id = '\x00000000000000000000000000000000'))
);

-- How many groups a bucket has, without its rest.
CREATE TABLE spend_bucket (
    organization_id text NOT NULL,
    span            text NOT NULL CHECK (span IN ('hour', 'day', 'month')),
    bucket          timestamptz NOT NULL,
    groups          integer NOT NULL CHECK (groups >= 0),

    PRIMARY KEY (organization_id, span, bucket)
);

CREATE INDEX spend_bucket_age ON spend_bucket (span, bucket);

-- The position in the feed up to which rows are aggregated. The aggregator holds its one row.
CREATE TABLE spend_mark (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    txid xid8 NOT NULL,
    seq  bigint NOT NULL
);

INSERT INTO spend_mark (txid, seq) VALUES ('0', 0);

-- The group of a call.
-- +goose StatementBegin
CREATE FUNCTION spend_group(provider text, model text, key_id text, user_id text, tags jsonb) RETURNS bytea
LANGUAGE sql STABLE PARALLEL SAFE AS $$
    SELECT substr(sha256(convert_to(jsonb_build_array(provider, model, key_id, user_id, tags)::text, 'UTF8')), 1, 16)
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION spend_group;
DROP TABLE spend_mark;
DROP TABLE spend_bucket;
DROP TABLE spend_rollup;
