-- name: AddCallCounts :exec
INSERT INTO call_count (organization_id, key_id, metric, minute, user_id, tags, calls)
SELECT
    c.organization_id,
    c.key_id,
    c.metric,
    date_trunc('minute', c.moment, 'UTC'),
    c.user_id,
    c.tags,
    count(*)
FROM unnest(
    @organizations::text[], @keys::text[], @metrics::text[], @moments::timestamptz[], @users::text[], @tags::jsonb[]
) AS c (organization_id, key_id, metric, moment, user_id, tags)
GROUP BY 1, 2, 3, 4, 5, 6;
