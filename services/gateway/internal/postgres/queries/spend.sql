-- name: LockSpendMark :one
-- LockSpendMark lets one replica aggregate or expire at a time; the others get no row.
SELECT txid::text AS txid, seq FROM spend_mark FOR UPDATE SKIP LOCKED;

-- name: FoldSpend :one
-- FoldSpend aggregates the next transactions of the feed, from their sums (see ledger_summed). A group that a full bucket
-- doesn't have yet is added to the bucket's rest. Rows from before hours_since or days_since are added to no hour or day,
-- because those have expired.
WITH next AS MATERIALIZED (
    SELECT ledger_sum_until(cast(@after_txid::text AS xid8), @count::int) AS txid
),
fresh AS MATERIALIZED (
    SELECT
        recorded_at, calls, organization_id, provider, model, key_id, user_id, tags, cost_pico_usd,
        input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens,
        audio_input_tokens, output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images,
        characters, audio_seconds, searches
    FROM ledger_summed AS s
    WHERE s.txid > cast(@after_txid AS xid8) AND s.txid <= (SELECT n.txid FROM next AS n)
    UNION ALL
    -- The rest of a transaction that the previous release read in part.
    SELECT
        recorded_at, 1::bigint, organization_id, provider, model, key_id, user_id, tags, cost_pico_usd::numeric,
        input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens,
        audio_input_tokens, output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images,
        characters, audio_seconds, searches
    FROM ledger_entry AS e
    WHERE e.txid = cast(@after_txid AS xid8) AND e.seq > @after_seq::bigint
),
-- The sums of a step are bigint again, which the next one adds up faster than numeric.
hourly AS MATERIALIZED (
    SELECT
        organization_id, spend_group(provider, model, key_id, user_id, tags) AS group_id, provider, model, key_id, user_id, tags,
        date_trunc('hour', recorded_at, 'UTC') AS hour,
        sum(calls)::bigint AS calls, sum(cost_pico_usd) AS cost_pico_usd, sum(input_tokens)::bigint AS input_tokens,
        sum(cache_read_tokens)::bigint AS cache_read_tokens, sum(cache_write_tokens)::bigint AS cache_write_tokens,
        sum(cache_write_long_tokens)::bigint AS cache_write_long_tokens,
        sum(image_input_tokens)::bigint AS image_input_tokens, sum(audio_input_tokens)::bigint AS audio_input_tokens,
        sum(output_tokens)::bigint AS output_tokens, sum(reasoning_tokens)::bigint AS reasoning_tokens,
        sum(image_output_tokens)::bigint AS image_output_tokens,
        sum(audio_output_tokens)::bigint AS audio_output_tokens, sum(images)::bigint AS images,
        sum(characters)::bigint AS characters, sum(audio_seconds)::bigint AS audio_seconds,
        sum(searches)::bigint AS searches
    FROM fresh
    GROUP BY organization_id, provider, model, key_id, user_id, tags, hour
),
kept AS NOT MATERIALIZED (
    SELECT hourly.*, s.span, date_trunc(s.span, hour, 'UTC') AS bucket
    FROM hourly CROSS JOIN (SELECT unnest(ARRAY['hour', 'day', 'month']) AS span) AS s
    WHERE s.span = 'month' OR (s.span = 'day' AND hour >= @days_since::timestamptz) OR (s.span = 'hour' AND hour >= @hours_since::timestamptz)
),
-- Rows of one hour, as they are unless many wait, are added up already.
spread AS MATERIALIZED (
    SELECT
        organization_id, span, bucket, group_id, provider, model, key_id, user_id, tags,
        calls, cost_pico_usd, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens,
        image_input_tokens, audio_input_tokens, output_tokens, reasoning_tokens, image_output_tokens,
        audio_output_tokens, images, characters, audio_seconds, searches
    FROM kept
    WHERE (SELECT min(h.hour) = max(h.hour) FROM hourly AS h)
    UNION ALL
    SELECT
        organization_id, span, bucket, group_id, provider, model, key_id, user_id, tags,
        sum(calls)::bigint AS calls, sum(cost_pico_usd) AS cost_pico_usd, sum(input_tokens)::bigint AS input_tokens,
        sum(cache_read_tokens)::bigint AS cache_read_tokens, sum(cache_write_tokens)::bigint AS cache_write_tokens,
        sum(cache_write_long_tokens)::bigint AS cache_write_long_tokens,
        sum(image_input_tokens)::bigint AS image_input_tokens, sum(audio_input_tokens)::bigint AS audio_input_tokens,
        sum(output_tokens)::bigint AS output_tokens, sum(reasoning_tokens)::bigint AS reasoning_tokens,
        sum(image_output_tokens)::bigint AS image_output_tokens,
        sum(audio_output_tokens)::bigint AS audio_output_tokens, sum(images)::bigint AS images,
        sum(characters)::bigint AS characters, sum(audio_seconds)::bigint AS audio_seconds,
        sum(searches)::bigint AS searches
    FROM kept
    WHERE (SELECT min(h.hour) < max(h.hour) FROM hourly AS h)
    GROUP BY organization_id, span, bucket, group_id, provider, model, key_id, user_id, tags
),
looked_up AS MATERIALIZED (
    SELECT s.*, r.group_id IS NOT NULL AS known
    FROM spread AS s
    -- One look-up for each group, whatever the plan's estimates are: the rollup is much longer than these rows.
    LEFT JOIN LATERAL (
        SELECT e.group_id FROM spend_rollup AS e
        WHERE e.organization_id = s.organization_id AND e.span = s.span AND e.bucket = s.bucket AND e.group_id = s.group_id
        OFFSET 0
    ) AS r ON true
),
-- place numbers the groups that a bucket doesn't have yet.
placed AS MATERIALIZED (
    SELECT *, row_number() OVER (PARTITION BY organization_id, span, bucket ORDER BY group_id) AS place
    FROM looked_up
    WHERE NOT known
),
bounded AS MATERIALIZED (
    SELECT *, 0::bigint AS place, false AS is_rest FROM looked_up WHERE known
    UNION ALL
    -- One look-up for each bucket tells how many groups it has.
    SELECT
        p.*,
        place + max(CASE WHEN place = 1 THEN coalesce((
            SELECT e.groups FROM spend_bucket AS e
            WHERE e.organization_id = p.organization_id AND e.span = p.span AND e.bucket = p.bucket
        ), 0) END) OVER (PARTITION BY organization_id, span, bucket) > CASE p.span
            WHEN 'hour' THEN @hour_groups::int
            WHEN 'day' THEN @day_groups::int
            ELSE @month_groups::int
        END
    FROM placed AS p
),
counted AS (
    INSERT INTO spend_bucket AS b (organization_id, span, bucket, groups)
    SELECT organization_id, span, bucket, count(*) FILTER (WHERE NOT known AND NOT is_rest)
    FROM bounded
    GROUP BY organization_id, span, bucket
    ON CONFLICT (organization_id, span, bucket) DO UPDATE SET groups = b.groups + excluded.groups
),
added AS (
    INSERT INTO spend_rollup AS r (
        organization_id, span, bucket, group_id, is_rest, provider, model, key_id, user_id, tags,
        calls, cost_pico_usd, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens,
        image_input_tokens, audio_input_tokens, output_tokens, reasoning_tokens, image_output_tokens,
        audio_output_tokens, images, characters, audio_seconds, searches
    )
    SELECT
        organization_id, span, bucket, group_id, is_rest, provider, model, key_id, user_id, tags,
        calls, cost_pico_usd, input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens,
        image_input_tokens, audio_input_tokens, output_tokens, reasoning_tokens, image_output_tokens,
        audio_output_tokens, images, characters, audio_seconds, searches
    FROM bounded
    WHERE NOT is_rest
    UNION ALL
    SELECT
        organization_id, span, bucket, '\x00000000000000000000000000000000', true, '(other)', '(other)', '(other)', '(other)', '{}',
        sum(calls), sum(cost_pico_usd), sum(input_tokens), sum(cache_read_tokens), sum(cache_write_tokens),
        sum(cache_write_long_tokens), sum(image_input_tokens), sum(audio_input_tokens), sum(output_tokens),
        sum(reasoning_tokens), sum(image_output_tokens), sum(audio_output_tokens), sum(images), sum(characters),
        sum(audio_seconds), sum(searches)
    FROM bounded
    WHERE is_rest
    GROUP BY organization_id, span, bucket
    ON CONFLICT (organization_id, span, bucket, group_id) DO UPDATE SET
        calls = r.calls + excluded.calls,
        cost_pico_usd = r.cost_pico_usd + excluded.cost_pico_usd,
        input_tokens = r.input_tokens + excluded.input_tokens,
        cache_read_tokens = r.cache_read_tokens + excluded.cache_read_tokens,
        cache_write_tokens = r.cache_write_tokens + excluded.cache_write_tokens,
        cache_write_long_tokens = r.cache_write_long_tokens + excluded.cache_write_long_tokens,
        image_input_tokens = r.image_input_tokens + excluded.image_input_tokens,
        audio_input_tokens = r.audio_input_tokens + excluded.audio_input_tokens,
        output_tokens = r.output_tokens + excluded.output_tokens,
        reasoning_tokens = r.reasoning_tokens + excluded.reasoning_tokens,
        image_output_tokens = r.image_output_tokens + excluded.image_output_tokens,
        audio_output_tokens = r.audio_output_tokens + excluded.audio_output_tokens,
        images = r.images + excluded.images,
        characters = r.characters + excluded.characters,
        audio_seconds = r.audio_seconds + excluded.audio_seconds,
        searches = r.searches + excluded.searches
),
moved AS (
    -- The highest seq marks the transaction as fully read.
    UPDATE spend_mark AS m SET txid = coalesce(next.txid, m.txid), seq = 9223372036854775807
    FROM next
    WHERE next.txid IS NOT NULL OR EXISTS (SELECT FROM fresh)
)
SELECT coalesce(sum(calls), 0)::bigint AS calls FROM fresh;

-- name: SpendLag :one
-- SpendLag returns the age in seconds of the oldest row of the ledger that isn't aggregated; 0 without one.
SELECT coalesce(greatest(extract(epoch FROM clock_timestamp() - (
    SELECT e.recorded_at FROM ledger_entry AS e
    WHERE (e.txid, e.seq) > (SELECT m.txid, m.seq FROM spend_mark AS m)
    ORDER BY e.txid, e.seq
    LIMIT 1
)), 0), 0)::float8 AS seconds;

-- name: ExpireSpend :one
-- ExpireSpend deletes some of the hours and days that begin before these moments, and returns how many buckets.
WITH old AS MATERIALIZED (
    SELECT organization_id, span, bucket
    FROM spend_bucket
    WHERE (span = 'hour' AND bucket < @hours_since::timestamptz) OR (span = 'day' AND bucket < @days_since::timestamptz)
    LIMIT @count::int
),
emptied AS (
    DELETE FROM spend_rollup AS r USING old
    WHERE r.organization_id = old.organization_id AND r.span = old.span AND r.bucket = old.bucket
),
deleted AS (
    DELETE FROM spend_bucket AS b USING old
    WHERE b.organization_id = old.organization_id AND b.span = old.span AND b.bucket = old.bucket
)
SELECT count(*) FROM old;

-- name: PlanForSpend :exec
-- PlanForSpend applies to the transaction: the best plan depends on the window, and compiling it does not pay. The server
-- estimates the rows beyond the mark at a third of the ledger, although they are its last second.
SELECT
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
    set_config('max_parallel_workers_per_gather', '0', true), set_config('work_mem', '64MB', true);

-- name: PlanForAggregation :exec
-- PlanForAggregation sets the planner for the rest of the transaction. A statement that runs each second keeps its plan,
-- because planning it takes longer than reading the sums of a second.
SELECT
    set_config('plan_cache_mode', 'force_generic_plan', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
    set_config('max_parallel_workers_per_gather', '0', true), set_config('work_mem', '64MB', true);

-- name: ListSpendBuckets :many
-- ListSpendBuckets returns how many groups the buckets of a report have at most, by which a page is read in parts.
SELECT bucket, (groups + 1)::int AS groups
FROM spend_bucket
WHERE organization_id = @organization_id AND span = @span::text AND bucket >= @since::timestamptz AND bucket < @until::timestamptz
ORDER BY bucket;

-- name: ListSpend :many
-- ListSpend returns a page of the sums of an organization in some of a report's buckets, by bucket and by the values that
-- are grouped by, and the total of the report as the last row, which is zero unless with_total. A value that isn't grouped
-- by is empty. The sums are those of the rollup (the source group) or of the sums by model (the source model), plus those
-- of the ledger's rows that aren't aggregated yet.
WITH used AS NOT MATERIALIZED (
    SELECT
        'group'::text AS source, r.bucket, r.is_rest, r.provider, r.model, r.key_id, r.user_id, r.tags, r.calls, r.cost_pico_usd,
        r.input_tokens, r.cache_read_tokens, r.cache_write_tokens, r.cache_write_long_tokens,
        r.image_input_tokens, r.audio_input_tokens, r.output_tokens, r.reasoning_tokens, r.image_output_tokens,
        r.audio_output_tokens, r.images, r.characters, r.audio_seconds, r.searches
    FROM spend_rollup AS r
    WHERE r.organization_id = @organization_id AND r.span = @span::text AND r.bucket >= @since::timestamptz AND r.bucket < @until::timestamptz
    UNION ALL
    SELECT
        'model'::text, m.bucket, false, m.provider, m.model, ''::text, ''::text, '{}'::jsonb, m.calls, m.cost_pico_usd,
        m.input_tokens, m.cache_read_tokens, m.cache_write_tokens, m.cache_write_long_tokens,
        m.image_input_tokens, m.audio_input_tokens, m.output_tokens, m.reasoning_tokens, m.image_output_tokens,
        m.audio_output_tokens, m.images, m.characters, m.audio_seconds, m.searches
    FROM spend_model AS m
    WHERE m.organization_id = @organization_id AND m.span = @span AND m.bucket >= @since AND m.bucket < @until
    UNION ALL
    -- A subquery in feed order, so that the plan uses the feed's index, of which this is the end.
    SELECT
        'ledger'::text, date_trunc(@span, tail.recorded_at, 'UTC'), false, tail.provider, tail.model, tail.key_id, tail.user_id, tail.tags,
        1::bigint, tail.cost_pico_usd::numeric,
        tail.input_tokens, tail.cache_read_tokens, tail.cache_write_tokens, tail.cache_write_long_tokens,
        tail.image_input_tokens, tail.audio_input_tokens, tail.output_tokens, tail.reasoning_tokens,
        tail.image_output_tokens, tail.audio_output_tokens, tail.images, tail.characters, tail.audio_seconds,
        tail.searches
    FROM (
        SELECT * FROM ledger_entry AS e
        WHERE (e.txid, e.seq) > (SELECT p.txid, p.seq FROM spend_mark AS p)
        ORDER BY e.txid, e.seq
        OFFSET 0
    ) AS tail
    WHERE tail.organization_id = @organization_id AND tail.recorded_at >= @since AND tail.recorded_at < @until
),
matching AS NOT MATERIALIZED (
    SELECT * FROM used AS u
    WHERE (@provider::text = '' OR u.provider = @provider)
        AND (@model::text = '' OR u.model = @model)
        AND (@key_id::text = '' OR u.key_id = @key_id)
        AND (@user_id::text = '' OR u.user_id = @user_id)
        AND (@tags::text = '{}' OR u.tags @> cast(@tags AS jsonb))
),
-- Values have the collation C, so that cursors and order agree whatever the database's is.
grouped AS NOT MATERIALIZED (
    SELECT
        u.bucket,
        (CASE WHEN @by_provider::boolean THEN u.provider ELSE '' END) COLLATE "C" AS provider,
        (CASE WHEN @by_model::boolean THEN u.model ELSE '' END) COLLATE "C" AS model,
        (CASE WHEN @by_key::boolean THEN u.key_id ELSE '' END) COLLATE "C" AS key_id,
        (CASE WHEN @by_user::boolean THEN u.user_id ELSE '' END) COLLATE "C" AS user_id,
        (CASE WHEN @tag_1::text = '' THEN '' WHEN u.is_rest THEN '(other)' ELSE coalesce(u.tags ->> @tag_1, '') END) COLLATE "C" AS tag_1,
        (CASE WHEN @tag_2::text = '' THEN '' WHEN u.is_rest THEN '(other)' ELSE coalesce(u.tags ->> @tag_2, '') END) COLLATE "C" AS tag_2,
        (CASE WHEN @tag_3::text = '' THEN '' WHEN u.is_rest THEN '(other)' ELSE coalesce(u.tags ->> @tag_3, '') END) COLLATE "C" AS tag_3,
        (CASE WHEN NOT @by_tags::boolean THEN '' WHEN u.is_rest THEN '(other)' ELSE u.tags::text END) COLLATE "C" AS all_tags,
        sum(u.calls)::bigint AS calls, sum(u.cost_pico_usd) AS cost_pico_usd,
        sum(u.input_tokens)::bigint AS input_tokens, sum(u.cache_read_tokens)::bigint AS cache_read_tokens,
        sum(u.cache_write_tokens)::bigint AS cache_write_tokens,
        sum(u.cache_write_long_tokens)::bigint AS cache_write_long_tokens,
        sum(u.image_input_tokens)::bigint AS image_input_tokens, sum(u.audio_input_tokens)::bigint AS audio_input_tokens,
        sum(u.output_tokens)::bigint AS output_tokens, sum(u.reasoning_tokens)::bigint AS reasoning_tokens,
        sum(u.image_output_tokens)::bigint AS image_output_tokens, sum(u.audio_output_tokens)::bigint AS audio_output_tokens,
        sum(u.images)::bigint AS images, sum(u.characters)::bigint AS characters, sum(u.audio_seconds)::bigint AS audio_seconds,
        sum(u.searches)::bigint AS searches
    FROM matching AS u
    WHERE u.source IN (@page_source::text, 'ledger') AND u.bucket >= @page_since::timestamptz AND u.bucket < @page_until::timestamptz
    GROUP BY 1, 2, 3, 4, 5, 6, 7, 8, 9
),
page AS (
    SELECT * FROM grouped AS g
    WHERE (g.bucket, g.provider, g.model, g.key_id, g.user_id, g.tag_1, g.tag_2, g.tag_3, g.all_tags)
        > (@after_bucket::timestamptz, @after_provider::text, @after_model::text, @after_key::text, @after_user::text,
            @after_tag_1::text, @after_tag_2::text, @after_tag_3::text, @after_tags::text)
    ORDER BY g.bucket, g.provider, g.model, g.key_id, g.user_id, g.tag_1, g.tag_2, g.tag_3, g.all_tags
    LIMIT @page_size::int
)
SELECT
    false::boolean AS is_total, bucket::timestamptz AS bucket, provider::text AS provider, model::text AS model, key_id::text AS key_id,
    user_id::text AS user_id, tag_1::text AS tag_1, tag_2::text AS tag_2, tag_3::text AS tag_3, all_tags::text AS all_tags,
    calls::bigint AS calls, cost_pico_usd::text AS cost_pico_usd,
    input_tokens::bigint AS input_tokens, cache_read_tokens::bigint AS cache_read_tokens,
    cache_write_tokens::bigint AS cache_write_tokens, cache_write_long_tokens::bigint AS cache_write_long_tokens,
    image_input_tokens::bigint AS image_input_tokens, audio_input_tokens::bigint AS audio_input_tokens,
    output_tokens::bigint AS output_tokens, reasoning_tokens::bigint AS reasoning_tokens,
    image_output_tokens::bigint AS image_output_tokens, audio_output_tokens::bigint AS audio_output_tokens,
    images::bigint AS images, characters::bigint AS characters, audio_seconds::bigint AS audio_seconds,
    searches::bigint AS searches
FROM page
UNION ALL
SELECT
    true, @since, '', '', '', '', '', '', '', '', coalesce(sum(calls), 0)::bigint, coalesce(sum(cost_pico_usd), 0)::text,
    coalesce(sum(input_tokens), 0)::bigint, coalesce(sum(cache_read_tokens), 0)::bigint,
    coalesce(sum(cache_write_tokens), 0)::bigint, coalesce(sum(cache_write_long_tokens), 0)::bigint,
    coalesce(sum(image_input_tokens), 0)::bigint, coalesce(sum(audio_input_tokens), 0)::bigint,
    coalesce(sum(output_tokens), 0)::bigint, coalesce(sum(reasoning_tokens), 0)::bigint,
    coalesce(sum(image_output_tokens), 0)::bigint, coalesce(sum(audio_output_tokens), 0)::bigint,
    coalesce(sum(images), 0)::bigint, coalesce(sum(characters), 0)::bigint,
    coalesce(sum(audio_seconds), 0)::bigint, coalesce(sum(searches), 0)::bigint
FROM matching AS u
WHERE u.source IN (@total_source::text, 'ledger') AND @with_total::boolean
ORDER BY is_total, bucket, provider, model, key_id, user_id, tag_1, tag_2, tag_3, all_tags;
