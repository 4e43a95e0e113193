-- name: ApplyUsage :exec
-- Rows come sorted, so that two replicas lock them in the same order.
WITH forward AS (
    INSERT INTO usage_writers AS w (writer, seq, updated_at) VALUES (@writer, @seq, now())
    ON CONFLICT (writer) DO UPDATE SET seq = excluded.seq, updated_at = excluded.updated_at WHERE w.seq < excluded.seq
    RETURNING 1
)
INSERT INTO usage_counters AS c (organization_id, key_id, metric, minute, count)
SELECT u.organization_id, u.key_id, u.metric, u.minute, u.count
FROM (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@keys::text[]) AS key_id,
        unnest(@metrics::text[]) AS metric, unnest(@minutes::timestamptz[]) AS minute,
        unnest(@counts::bigint[]) AS count, generate_subscripts(@counts::bigint[], 1) AS place
) AS u
WHERE EXISTS (SELECT FROM forward)
ORDER BY u.place
ON CONFLICT (organization_id, key_id, metric, minute) DO UPDATE SET count = c.count + excluded.count;

-- name: SumUsage :many
SELECT organization_id, key_id, metric, sum(count)::bigint AS count
FROM usage_counters
WHERE (@organization_id::text = '' OR organization_id = @organization_id)
  AND (@metric::text = '' OR metric = @metric)
  AND minute >= @since AND minute < @before
  AND (organization_id, key_id, metric) > (@after_organization::text, @after_key::text, @after_metric::text)
GROUP BY organization_id, key_id, metric
ORDER BY organization_id, key_id, metric
LIMIT @page;
