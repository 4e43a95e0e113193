-- name: FollowSpend :exec
-- FollowSpend has the feeds of organizations read, from the beginning of the month on if they are new.
INSERT INTO spend_feeds AS f (organization_id, since, cursor, called_at, read_at)
SELECT u.organization_id, @since, '', @called_at, @since
FROM (SELECT DISTINCT unnest(@organizations::text[]) AS organization_id) AS u
ORDER BY u.organization_id
ON CONFLICT (organization_id) DO UPDATE SET called_at = excluded.called_at WHERE f.called_at < excluded.called_at - interval '1 second';

-- name: DueFeeds :many
-- DueFeeds returns feeds that were not read for a sixtieth of the time since the last call, from a second to five minutes,
-- those that wait the longest first.
SELECT organization_id, since, cursor FROM spend_feeds
WHERE read_at + least(interval '5 minutes', greatest(interval '1 second', (sqlc.arg(now)::timestamptz - called_at) / 60)) <= sqlc.arg(now)::timestamptz
ORDER BY read_at LIMIT @page;

-- name: AdvanceFeeds :many
-- AdvanceFeeds moves feeds on, except those that another replica has moved, and returns the organizations. spent says
-- whether there were records.
WITH locked AS (
    SELECT f.organization_id, u.next, u.spent
    FROM (
        SELECT unnest(@organizations::text[]) AS organization_id, unnest(@cursors::text[]) AS cursor, unnest(@nexts::text[]) AS next,
            unnest(@spent::boolean[]) AS spent
    ) AS u
    JOIN spend_feeds AS f ON f.organization_id = u.organization_id AND f.cursor = u.cursor
    ORDER BY f.organization_id FOR UPDATE OF f
)
UPDATE spend_feeds AS f
SET cursor = l.next, read_at = @read_at, spent_at = CASE WHEN l.spent THEN @read_at ELSE f.spent_at END
FROM locked AS l WHERE f.organization_id = l.organization_id
RETURNING f.organization_id;

-- name: AddSpend :exec
INSERT INTO spend_windows AS w (organization_id, key_id, period, starts_at, tokens, pico_usd)
SELECT u.organization_id, u.key_id, u.period, u.starts_at, u.tokens, u.pico
FROM (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@keys::text[]) AS key_id, unnest(@periods::text[]) AS period,
        unnest(@starts::timestamptz[]) AS starts_at, unnest(@tokens::bigint[]) AS tokens, unnest(@picos::bigint[]) AS pico
) AS u
ORDER BY u.organization_id, u.key_id, u.period, u.starts_at
ON CONFLICT (organization_id, key_id, period, starts_at)
DO UPDATE SET tokens = w.tokens + excluded.tokens, pico_usd = w.pico_usd + excluded.pico_usd;

-- name: KeyOrigins :many
SELECT id, origin FROM api_keys WHERE id = ANY (@ids::text[]) AND origin IS NOT NULL;

-- name: SpentInWindows :many
-- SpentInWindows returns what was spent in each window, in the order of the arguments; amounts beyond 64 bits as the
-- largest.
SELECT u.place::bigint AS place, least(coalesce(w.tokens, 0), 9223372036854775807)::bigint AS tokens,
    least(coalesce(w.pico_usd, 0), 9223372036854775807)::bigint AS pico_usd
FROM (
    SELECT unnest(@organizations::text[]) AS organization_id, unnest(@keys::text[]) AS key_id, unnest(@periods::text[]) AS period,
        unnest(@starts::timestamptz[]) AS starts_at, generate_subscripts(@organizations::text[], 1) AS place
) AS u
LEFT JOIN spend_windows AS w
    ON w.organization_id = u.organization_id AND w.key_id = u.key_id AND w.period = u.period AND w.starts_at = u.starts_at
ORDER BY u.place;

-- name: DropSpend :execrows
-- DropSpend removes windows of minutes and days that nothing can be added to any more.
DELETE FROM spend_windows AS w WHERE (w.organization_id, w.key_id, w.period, w.starts_at) IN (
    SELECT o.organization_id, o.key_id, o.period, o.starts_at FROM spend_windows AS o
    WHERE (o.period = 'minute' AND o.starts_at < @minutes_before::timestamptz) OR (o.period = 'day' AND o.starts_at < @days_before::timestamptz)
    LIMIT @page FOR UPDATE SKIP LOCKED
);
