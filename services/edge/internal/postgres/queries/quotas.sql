-- name: CountedInWindows :many
-- CountedInWindows sums the counts of each window, in the order of the arguments: of a whole organization, or of all keys
-- of a chain of rotations, on some metrics or on all.
SELECT w.place::bigint AS place, coalesce((
    SELECT sum(c.count) FROM usage_counters AS c
    WHERE c.organization_id = w.organization_id AND c.minute >= w.since AND c.minute < w.before
      AND (w.origin = '' OR c.key_id IN (SELECT k.id FROM api_keys AS k WHERE k.organization_id = w.organization_id AND (k.id = w.origin OR k.origin = w.origin)))
      AND (w.metrics = '' OR c.metric = ANY (string_to_array(w.metrics, ' ')))
), 0)::bigint AS count
FROM (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@origins::text[]) AS origin, unnest(@metrics::text[]) AS metrics,
        unnest(@since::timestamptz[]) AS since, unnest(@before::timestamptz[]) AS before,
        generate_subscripts(@organizations::text[], 1) AS place
) AS w
ORDER BY w.place;
