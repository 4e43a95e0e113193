-- name: InsertConsoleSession :exec
INSERT INTO console_sessions (id, session_digest, token_digest, operator, created_at, idle_at, ends_at)
VALUES (@id, @session_digest, @token_digest, @operator, @created_at, @idle_at, @ends_at);

-- name: ConsoleSession :one
SELECT id, token_digest, operator, idle_at, ends_at
FROM console_sessions
WHERE session_digest = @session_digest AND idle_at > @now::timestamptz;

-- name: ExtendConsoleSession :exec
UPDATE console_sessions SET idle_at = least(@idle_at::timestamptz, ends_at)
WHERE session_digest = @session_digest AND idle_at > @now::timestamptz;

-- name: EndConsoleSession :exec
UPDATE console_sessions SET idle_at = greatest(@now::timestamptz, created_at)
WHERE session_digest = @session_digest AND idle_at > @now::timestamptz;

-- name: DropConsoleSessions :exec
DELETE FROM console_sessions
WHERE id IN (SELECT d.id FROM console_sessions AS d WHERE d.created_at < @before ORDER BY d.created_at LIMIT @page);

-- name: ListOrganizations :many
-- ListOrganizations reads one key of each organization, so that it costs as much as the page has rows. The order is that of
-- bytes, in which no other organization is between those that begin with the prefix.
WITH RECURSIVE known AS (
    SELECT (SELECT min(k.organization_id COLLATE "C") FROM api_keys AS k WHERE k.organization_id COLLATE "C" > @after::text
        AND k.organization_id COLLATE "C" >= @prefix::text) AS organization_id, 1 AS place
    UNION ALL
    SELECT (SELECT min(k.organization_id COLLATE "C") FROM api_keys AS k WHERE k.organization_id COLLATE "C" > known.organization_id),
        known.place + 1
    FROM known WHERE starts_with(known.organization_id, @prefix::text) AND known.place < @page::integer
)
SELECT known.organization_id::text AS organization_id, coalesce(p.plan, '')::text AS plan
FROM known
LEFT JOIN organization_plans AS p ON p.organization_id = known.organization_id
WHERE starts_with(known.organization_id, @prefix::text)
ORDER BY known.organization_id COLLATE "C";
