-- name: LockQuotaMark :one
-- LockQuotaMark lets one replica compare usage with limits at a time; the others get no row.
SELECT compared_at FROM quota_mark FOR UPDATE SKIP LOCKED;

-- name: AllowIdleRound :exec
-- AllowIdleRound lets the transaction that holds the mark be idle for as long as a comparison may take. A replica that
-- hangs holds it no longer.
SELECT set_config('idle_in_transaction_session_timeout', '70s', true);

-- name: MoveQuotaMark :exec
UPDATE quota_mark SET compared_at = @compared_at;

-- name: ActiveHolders :many
-- ActiveHolders returns the organizations, with an empty key, and the keys with a plan of their own that have counts of
-- minutes since a moment, or to whose spending was added since then; with their plans. A key is the first of its rotations.
WITH called AS MATERIALIZED (
    SELECT DISTINCT u.organization_id, u.key_id FROM usage_counters AS u WHERE u.minute >= @since
), spent AS MATERIALIZED (
    SELECT f.organization_id FROM spend_feeds AS f WHERE f.spent_at >= @since::timestamptz
), holders AS (
    SELECT o.organization_id, '' AS key_id, coalesce(p.plan, @standard::text) AS plan
    FROM (SELECT c.organization_id FROM called AS c UNION SELECT s.organization_id FROM spent AS s) AS o
    LEFT JOIN organization_plans AS p USING (organization_id)
    UNION
    SELECT k.organization_id, coalesce(k.origin, k.id), k.plan
    FROM called AS c JOIN api_keys AS k ON k.id = c.key_id AND k.organization_id = c.organization_id
    UNION
    SELECT k.organization_id, coalesce(k.origin, k.id), k.plan
    FROM spent AS s JOIN api_keys AS k ON k.organization_id = s.organization_id
    WHERE k.plan IS NOT NULL AND EXISTS (
        SELECT FROM spend_windows AS w
        WHERE w.organization_id = k.organization_id AND w.key_id = coalesce(k.origin, k.id) AND w.period = 'day'
            AND w.starts_at >= date_trunc('day', @since::timestamptz, 'UTC')
    )
)
SELECT h.organization_id, h.key_id, h.plan::text AS plan FROM holders AS h
WHERE h.plan <> '' AND (h.organization_id, h.key_id, h.plan) > (@after_organization::text, @after_key::text, @after_plan::text)
ORDER BY h.organization_id, h.key_id, h.plan LIMIT @page;

-- name: ExhaustedCredits :many
-- ExhaustedCredits returns organizations that have nothing left of their credits, with their last grant: of those to
-- whose spending was added since a moment, or of which a grant has expired since then.
WITH candidates AS (
    SELECT f.organization_id FROM spend_feeds AS f WHERE f.spent_at >= @since::timestamptz
    UNION
    SELECT g.organization_id FROM credit_grants AS g WHERE g.expires_at >= @since AND g.expires_at <= @now::timestamptz
), last AS (
    SELECT DISTINCT ON (g.organization_id) g.organization_id, g.id
    FROM candidates AS c JOIN credit_grants AS g ON g.organization_id = c.organization_id
    ORDER BY g.organization_id, g.created_at DESC, g.id DESC
)
SELECT l.organization_id, l.id AS last_grant, coalesce(p.plan, @standard::text)::text AS plan
FROM last AS l LEFT JOIN organization_plans AS p ON p.organization_id = l.organization_id
WHERE l.organization_id > @after::text AND NOT EXISTS (
    SELECT FROM credit_grants AS g
    WHERE g.organization_id = l.organization_id AND g.spent_pico_usd < g.pico_usd AND g.expires_at > @now
)
ORDER BY l.organization_id LIMIT @page;
