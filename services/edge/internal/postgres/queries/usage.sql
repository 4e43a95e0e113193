-- name: ApplyUsage :one
-- ApplyUsage inserts sorted rows, so that replicas lock them in the same order. It reports whether none of the batches
-- from first to seq was applied before; otherwise it applies none.
WITH forward AS (
    INSERT INTO usage_writers AS w (writer, seq, updated_at) VALUES (@writer, @seq, now())
    ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at WHERE w.seq < @first
    RETURNING 1
), added AS (
    INSERT INTO usage_counters AS c (organization_id, key_id, metric, minute, count)
    SELECT u.organization_id, u.key_id, u.metric, u.minute, u.count
    FROM (
        SELECT unnest(@organizations::text[]) AS organization_id, unnest(@keys::text[]) AS key_id,
            unnest(@metrics::text[]) AS metric, unnest(@minutes::timestamptz[]) AS minute,
            unnest(@counts::bigint[]) AS count, generate_subscripts(@counts::bigint[], 1) AS place
) AS u
    WHERE EXISTS (SELECT FROM forward)
    ORDER BY u.place
    ON CONFLICT (organization_id, key_id, metric, minute) DO UPDATE SET count = c.count + excluded.count
)
SELECT EXISTS (SELECT FROM forward) AS applied;

-- name: SumUsage :many
SELECT organization_id, key_id, metric, sum(count)::bigint AS count
FROM usage_counters
WHERE (@organization_id::text = '' OR organization_id = @organization_id)
  AND (@key_id::text = '' OR key_id = @key_id)
  AND (@metric::text = '' OR metric = @metric)
  AND minute >= @since AND minute < @before
  AND (organization_id, key_id, metric) > (@after_organization::text, @after_key::text, @after_metric::text)
GROUP BY organization_id, key_id, metric
ORDER BY organization_id, key_id, metric
LIMIT @page;

-- name: SumUsageByPeriod :many
SELECT organization_id, key_id, metric, date_trunc(@period::text, minute, 'UTC')::timestamptz AS starts_at, sum(count)::bigint AS count
FROM usage_counters
WHERE (@organization_id::text = '' OR organization_id = @organization_id)
  AND (@key_id::text = '' OR key_id = @key_id)
  AND (@metric::text = '' OR metric = @metric)
  AND minute >= @since AND minute < @before
  AND (organization_id, key_id, metric, date_trunc(@period::text, minute, 'UTC'))
    > (@after_organization::text, @after_key::text, @after_metric::text, @after_start::timestamptz)
GROUP BY organization_id, key_id, metric, starts_at
ORDER BY organization_id, key_id, metric, starts_at
LIMIT @page;

-- name: MergeIntoHours :one
-- MergeIntoHours removes and reinserts the merged counters in one statement, so that every sum over whole hours stays
-- the same. Concurrent replicas merge other rows.
WITH old AS (
    SELECT u.organization_id, u.key_id, u.metric, u.minute FROM usage_counters AS u
    WHERE u.minute < @before AND u.minute AT TIME ZONE 'UTC' <> date_trunc('hour', u.minute AT TIME ZONE 'UTC')
    ORDER BY u.minute LIMIT @page FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM usage_counters AS c USING old
    WHERE c.organization_id = old.organization_id AND c.key_id = old.key_id AND c.metric = old.metric AND c.minute = old.minute
    RETURNING c.organization_id, c.key_id, c.metric, c.minute, c.count
), merged AS (
    INSERT INTO usage_counters AS c (organization_id, key_id, metric, minute, count)
    SELECT g.organization_id, g.key_id, g.metric, date_trunc('hour', g.minute, 'UTC'), sum(g.count)
    FROM gone AS g GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (organization_id, key_id, metric, minute) DO UPDATE SET count = c.count + excluded.count
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone)::bigint AS rows, (SELECT count(*) FROM merged)::bigint AS kept;

-- name: MergeIntoDays :one
WITH old AS (
    SELECT u.organization_id, u.key_id, u.metric, u.minute FROM usage_counters AS u
    WHERE u.minute < @before AND u.minute AT TIME ZONE 'UTC' <> date_trunc('day', u.minute AT TIME ZONE 'UTC')
    ORDER BY u.minute LIMIT @page FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM usage_counters AS c USING old
    WHERE c.organization_id = old.organization_id AND c.key_id = old.key_id AND c.metric = old.metric AND c.minute = old.minute
    RETURNING c.organization_id, c.key_id, c.metric, c.minute, c.count
), merged AS (
    INSERT INTO usage_counters AS c (organization_id, key_id, metric, minute, count)
    SELECT g.organization_id, g.key_id, g.metric, date_trunc('day', g.minute, 'UTC'), sum(g.count)
    FROM gone AS g GROUP BY 1, 2, 3, 4 ORDER BY 1, 2, 3, 4
    ON CONFLICT (organization_id, key_id, metric, minute) DO UPDATE SET count = c.count + excluded.count
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone)::bigint AS rows, (SELECT count(*) FROM merged)::bigint AS kept;

-- name: DropUsage :execrows
DELETE FROM usage_counters AS c
WHERE (c.organization_id, c.key_id, c.metric, c.minute) IN (
    SELECT o.organization_id, o.key_id, o.metric, o.minute FROM usage_counters AS o WHERE o.minute < @before
    LIMIT @page FOR UPDATE SKIP LOCKED
);

-- name: DropWriters :execrows
DELETE FROM usage_writers AS w
WHERE w.writer IN (SELECT o.writer FROM usage_writers AS o WHERE o.updated_at < @before LIMIT @page FOR UPDATE SKIP LOCKED);
