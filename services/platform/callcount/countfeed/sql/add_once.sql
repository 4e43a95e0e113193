INSERT INTO call_count (id, organization_id, key_id, metric, minute, user_id, tags, calls)
SELECT
    c.id,
    c.organization_id,
    c.key_id,
    c.metric,
    date_trunc('minute', c.moment, 'UTC'),
    c.user_id,
    c.tags,
    1
FROM unnest(
    @ids::uuid[], @organizations::text[], @keys::text[], @metrics::text[], @moments::timestamptz[], @users::text[],
    @tags::jsonb[]
) AS c (id, organization_id, key_id, metric, moment, user_id, tags)
ON CONFLICT (id) WHERE id IS NOT NULL DO NOTHING;
