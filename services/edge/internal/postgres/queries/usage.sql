-- name: AddUsage :one
-- AddUsage adds sorted counts, so that replicas lock rows in the same order, and moves the cursor of the service that they
-- are from. It reports whether the cursor was where it is moved from; otherwise it does nothing. Groups beyond most of an
-- organization and hour are counted as other; pages at the same time may each fill the last room.
WITH forward AS (
    INSERT INTO usage_feed AS f (service, cursor, read_at) VALUES (@service, @next, now())
    ON CONFLICT (service) DO UPDATE SET cursor = excluded.cursor, read_at = excluded.read_at WHERE f.cursor = @cursor
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
), grouped AS (
    SELECT unnest(@group_organizations::text[]) AS organization_id, unnest(@group_hours::timestamptz[]) AS hour,
        unnest(@group_keys::text[]) AS key_id, unnest(@group_metrics::text[]) AS metric, unnest(@group_digests::bytea[]) AS digest,
        unnest(@group_users::text[]) AS user_id, unnest(@group_tags::jsonb[]) AS tags, unnest(@group_counts::bigint[]) AS count
), ranked AS (
    SELECT g.*, h.digest IS NOT NULL AS known,
        row_number() OVER (PARTITION BY g.organization_id, g.hour, h.digest IS NOT NULL ORDER BY g.key_id, g.metric, g.digest)
        + (SELECT count(*) FROM usage_group AS o WHERE o.organization_id = g.organization_id AND o.hour = g.hour) AS place
    FROM grouped AS g LEFT JOIN usage_group AS h USING (organization_id, hour, key_id, metric, digest)
), placed AS (
    SELECT r.organization_id, r.hour, r.key_id, r.metric, r.count,
        CASE WHEN r.known OR r.place <= @most::bigint THEN r.digest ELSE @other_digest::bytea END AS digest,
        CASE WHEN r.known OR r.place <= @most THEN r.user_id ELSE '' END AS user_id,
        CASE WHEN r.known OR r.place <= @most THEN r.tags ELSE '{}' END AS tags
    FROM ranked AS r
), gathered AS (
    INSERT INTO usage_group AS g (organization_id, hour, key_id, metric, digest, user_id, tags, other, count)
    SELECT p.organization_id, p.hour, p.key_id, p.metric, p.digest, p.user_id, p.tags, p.digest = @other_digest, sum(p.count)::bigint
    FROM placed AS p WHERE EXISTS (SELECT FROM forward)
    GROUP BY 1, 2, 3, 4, 5, 6, 7
    ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (organization_id, hour, key_id, metric, digest) DO UPDATE SET count = g.count + excluded.count
)
SELECT EXISTS (SELECT FROM forward) AS added;

-- name: UsageCursor :one
SELECT cursor FROM usage_feed WHERE service = @service;

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

-- name: SumUsageByGroup :many
-- SumUsageByGroup sums by labels, a text for each dimension (user, or tag. and a name). What is counted without a user and
-- tags is the difference between the counters and the groups; it has empty labels, and no filter of groups finds it.
SELECT x.organization_id, x.key_id, x.metric, x.starts_at::timestamptz AS starts_at, x.labels::text[] AS labels, sum(x.count)::bigint AS count
FROM (
    SELECT g.organization_id, g.key_id, g.metric,
        CASE WHEN @period::text = '' THEN 'epoch' ELSE date_trunc(@period, g.hour, 'UTC') END AS starts_at,
        ARRAY(
            SELECT CASE WHEN g.other THEN '(other)' WHEN d.name = 'user' THEN g.user_id ELSE coalesce(g.tags ->> substr(d.name, 5), '') END
            FROM unnest(@dimensions::text[]) WITH ORDINALITY AS d (name, place) ORDER BY d.place
        ) AS labels, g.count
    FROM usage_group AS g
    WHERE (@organization_id::text = '' OR g.organization_id = @organization_id)
      AND (@key_id::text = '' OR g.key_id = @key_id) AND (@metric::text = '' OR g.metric = @metric)
      AND g.hour >= @since AND g.hour < @before
      AND (@user_id::text = '' OR g.user_id = @user_id) AND g.tags @> @tags::jsonb
    UNION ALL
    SELECT c.organization_id, c.key_id, c.metric,
        CASE WHEN @period = '' THEN 'epoch' ELSE date_trunc(@period, c.minute, 'UTC') END,
        array_fill(''::text, ARRAY[cardinality(@dimensions)]), c.count
    FROM usage_counters AS c
    WHERE NOT @filtered::boolean AND (@organization_id = '' OR c.organization_id = @organization_id)
      AND (@key_id = '' OR c.key_id = @key_id) AND (@metric = '' OR c.metric = @metric)
      AND c.minute >= @since AND c.minute < @before
    UNION ALL
    SELECT g.organization_id, g.key_id, g.metric,
        CASE WHEN @period = '' THEN 'epoch' ELSE date_trunc(@period, g.hour, 'UTC') END,
        array_fill(''::text, ARRAY[cardinality(@dimensions)]), -g.count
    FROM usage_group AS g
    WHERE NOT @filtered AND (@organization_id = '' OR g.organization_id = @organization_id)
      AND (@key_id = '' OR g.key_id = @key_id) AND (@metric = '' OR g.metric = @metric)
      AND g.hour >= @since AND g.hour < @before
) AS x
WHERE (x.organization_id, x.key_id, x.metric, x.starts_at, x.labels)
    > (@after_organization::text, @after_key::text, @after_metric::text, @after_start::timestamptz, @after_labels::text[])
GROUP BY x.organization_id, x.key_id, x.metric, x.starts_at, x.labels
HAVING sum(x.count) <> 0
ORDER BY x.organization_id, x.key_id, x.metric, x.starts_at, x.labels
LIMIT @page;

-- name: MergeGroupsIntoDays :one
WITH old AS (
    SELECT u.organization_id, u.hour, u.key_id, u.metric, u.digest FROM usage_group AS u
    WHERE u.hour < @before AND u.hour AT TIME ZONE 'UTC' <> date_trunc('day', u.hour AT TIME ZONE 'UTC')
    ORDER BY u.hour LIMIT @page FOR UPDATE SKIP LOCKED
), gone AS (
    DELETE FROM usage_group AS g USING old
    WHERE g.organization_id = old.organization_id AND g.hour = old.hour AND g.key_id = old.key_id AND g.metric = old.metric AND g.digest = old.digest
    RETURNING g.organization_id, g.hour, g.key_id, g.metric, g.digest, g.user_id, g.tags, g.other, g.count
), merged AS (
    INSERT INTO usage_group AS g (organization_id, hour, key_id, metric, digest, user_id, tags, other, count)
    SELECT o.organization_id, date_trunc('day', o.hour, 'UTC'), o.key_id, o.metric, o.digest, o.user_id, o.tags, o.other, sum(o.count)
    FROM gone AS o GROUP BY 1, 2, 3, 4, 5, 6, 7, 8 ORDER BY 1, 2, 3, 4, 5
    ON CONFLICT (organization_id, hour, key_id, metric, digest) DO UPDATE SET count = g.count + excluded.count
    RETURNING 1
)
SELECT (SELECT count(*) FROM gone)::bigint AS rows, (SELECT count(*) FROM merged)::bigint AS kept;

-- name: DropUsageGroups :execrows
DELETE FROM usage_group AS g
WHERE (g.organization_id, g.hour, g.key_id, g.metric, g.digest) IN (
    SELECT o.organization_id, o.hour, o.key_id, o.metric, o.digest FROM usage_group AS o WHERE o.hour < @before
    LIMIT @page FOR UPDATE SKIP LOCKED
);
