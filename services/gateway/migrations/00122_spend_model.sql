-- +goose Up

-- The rollup's sums by provider and model alone: few rows for each bucket, from which reports take their total, and
-- everything if they ask for no key, user or tag. Triggers keep them equal to the rollup, whichever release aggregates.
--
-- No release aggregates until this migration has committed, so that the sums begin complete.
SELECT one FROM spend_mark FOR UPDATE;

CREATE TABLE spend_model (
    organization_id         text NOT NULL,
    span                    text NOT NULL,
    bucket                  timestamptz NOT NULL,
    -- The group of provider and model without key, user and tags. The rest of a bucket has the provider and the model
    -- '(other)'.
    model_id                bytea NOT NULL CHECK (octet_length(model_id) = 16),
    provider                text NOT NULL,
    model                   text NOT NULL,
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

    PRIMARY KEY (organization_id, span, bucket, model_id)
);

INSERT INTO spend_model (
    organization_id, span, bucket, model_id, provider, model, calls, cost_pico_usd, input_tokens,
    cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens,
    output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters,
    audio_seconds, searches
)
SELECT
    organization_id, span, bucket, spend_group(provider, model, '', '', '{}'), provider, model, sum(calls),
    sum(cost_pico_usd), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
    sum(cache_write_long_tokens), sum(image_input_tokens), sum(audio_input_tokens), sum(output_tokens),
    sum(reasoning_tokens), sum(image_output_tokens), sum(audio_output_tokens), sum(images), sum(characters),
    sum(audio_seconds), sum(searches)
FROM spend_rollup
GROUP BY organization_id, span, bucket, provider, model;

-- +goose StatementBegin
CREATE FUNCTION spend_rollup_inserts() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spend_model AS m (
        organization_id, span, bucket, model_id, provider, model, calls, cost_pico_usd, input_tokens,
        cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens,
        output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters,
        audio_seconds, searches
    )
    SELECT
        organization_id, span, bucket, spend_group(provider, model, '', '', '{}'), provider, model, sum(calls),
        sum(cost_pico_usd), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
        sum(cache_write_long_tokens), sum(image_input_tokens), sum(audio_input_tokens), sum(output_tokens),
        sum(reasoning_tokens), sum(image_output_tokens), sum(audio_output_tokens), sum(images), sum(characters),
        sum(audio_seconds), sum(searches)
    FROM added
    GROUP BY organization_id, span, bucket, provider, model
    ON CONFLICT (organization_id, span, bucket, model_id) DO UPDATE SET
        calls = m.calls + excluded.calls,
        cost_pico_usd = m.cost_pico_usd + excluded.cost_pico_usd,
        input_tokens = m.input_tokens + excluded.input_tokens,
        cache_read_tokens = m.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = m.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_long_tokens = m.cache_write_long_tokens + excluded.cache_write_long_tokens,
        image_input_tokens = m.image_input_tokens + excluded.image_input_tokens,
        audio_input_tokens = m.audio_input_tokens + excluded.audio_input_tokens,
        output_tokens = m.output_tokens + excluded.output_tokens,
        reasoning_tokens = m.reasoning_tokens + excluded.reasoning_tokens,
        image_output_tokens = m.image_output_tokens + excluded.image_output_tokens,
        audio_output_tokens = m.audio_output_tokens + excluded.audio_output_tokens,
        images = m.images + excluded.images,
        characters = m.characters + excluded.characters,
        audio_seconds = m.audio_seconds + excluded.audio_seconds,
        searches = m.searches + excluded.searches;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION spend_rollup_updates() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO spend_model AS m (
        organization_id, span, bucket, model_id, provider, model, calls, cost_pico_usd, input_tokens,
        cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens,
        output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters,
        audio_seconds, searches
    )
    SELECT
        organization_id, span, bucket, spend_group(provider, model, '', '', '{}'), provider, model, sum(calls),
        sum(cost_pico_usd), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
        sum(cache_write_long_tokens), sum(image_input_tokens), sum(audio_input_tokens), sum(output_tokens),
        sum(reasoning_tokens), sum(image_output_tokens), sum(audio_output_tokens), sum(images), sum(characters),
        sum(audio_seconds), sum(searches)
    FROM (
        SELECT
            organization_id, span, bucket, provider, model, calls, cost_pico_usd, input_tokens, cache_read_tokens,
            cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens, output_tokens,
            reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters, audio_seconds, searches
        FROM after
        UNION ALL
        SELECT
            organization_id, span, bucket, provider, model, -calls, -cost_pico_usd, -input_tokens,
            -cache_read_tokens, -cache_write_tokens, -cache_write_long_tokens, -image_input_tokens,
            -audio_input_tokens, -output_tokens, -reasoning_tokens, -image_output_tokens, -audio_output_tokens,
            -images, -characters, -audio_seconds, -searches
        FROM before
    ) AS change
    GROUP BY organization_id, span, bucket, provider, model
    ON CONFLICT (organization_id, span, bucket, model_id) DO UPDATE SET
        calls = m.calls + excluded.calls,
        cost_pico_usd = m.cost_pico_usd + excluded.cost_pico_usd,
        input_tokens = m.input_tokens + excluded.input_tokens,
        cache_read_tokens = m.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = m.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_long_tokens = m.cache_write_long_tokens + excluded.cache_write_long_tokens,
        image_input_tokens = m.image_input_tokens + excluded.image_input_tokens,
        audio_input_tokens = m.audio_input_tokens + excluded.audio_input_tokens,
        output_tokens = m.output_tokens + excluded.output_tokens,
        reasoning_tokens = m.reasoning_tokens + excluded.reasoning_tokens,
        image_output_tokens = m.image_output_tokens + excluded.image_output_tokens,
        audio_output_tokens = m.audio_output_tokens + excluded.audio_output_tokens,
        images = m.images + excluded.images,
        characters = m.characters + excluded.characters,
        audio_seconds = m.audio_seconds + excluded.audio_seconds,
        searches = m.searches + excluded.searches;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- Whatever deletes an expired bucket deletes its sums. A foreign key would check each new row.
-- +goose StatementBegin
CREATE FUNCTION spend_bucket_deletes() RETURNS trigger
LANGUAGE plpgsql AS $$
BEGIN
    DELETE FROM spend_model AS m USING deleted AS d
    WHERE m.organization_id = d.organization_id AND m.span = d.span AND m.bucket = d.bucket;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER spend_rollup_inserts AFTER INSERT ON spend_rollup
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION spend_rollup_inserts();
CREATE TRIGGER spend_rollup_updates AFTER UPDATE ON spend_rollup
    REFERENCING OLD TABLE AS before NEW TABLE AS after FOR EACH STATEMENT EXECUTE FUNCTION spend_rollup_updates();
CREATE TRIGGER spend_bucket_deletes AFTER DELETE ON spend_bucket
    REFERENCING OLD TABLE AS deleted FOR EACH STATEMENT EXECUTE FUNCTION spend_bucket_deletes();

-- +goose Down

DROP TRIGGER spend_bucket_deletes ON spend_bucket;
DROP TRIGGER spend_rollup_updates ON spend_rollup;
DROP TRIGGER spend_rollup_inserts ON spend_rollup;
DROP FUNCTION spend_bucket_deletes;
DROP FUNCTION spend_rollup_updates;
DROP FUNCTION spend_rollup_inserts;
DROP TABLE spend_model;
