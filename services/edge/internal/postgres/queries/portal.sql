-- name: InsertPortalLink :exec
INSERT INTO portal_sessions (id, link_digest, organization_id, owner_id, user_id, scopes, return_url, created_by, created_at, link_expires_at)
VALUES (@id, @link_digest, @organization_id, @owner_id, @user_id, @scopes, @return_url, @created_by, @created_at, @link_expires_at);

-- name: OpenPortalLink :execrows
-- The row's lock lets one of several uses at once win; the others then find a session.
UPDATE portal_sessions
SET session_digest = @session_digest::bytea, expires_at = @expires_at::timestamptz
WHERE link_digest = @link_digest AND session_digest IS NULL AND link_expires_at > @now::timestamptz;

-- name: PortalSession :one
SELECT id, organization_id, owner_id, user_id, scopes, return_url, expires_at::timestamptz AS expires_at
FROM portal_sessions
WHERE session_digest = @session_digest::bytea AND expires_at > @now::timestamptz;

-- name: EndPortalSession :exec
UPDATE portal_sessions SET expires_at = @now::timestamptz WHERE session_digest = @session_digest::bytea AND expires_at > @now::timestamptz;

-- name: DropPortalSessions :exec
DELETE FROM portal_sessions
WHERE id IN (SELECT d.id FROM portal_sessions AS d WHERE d.created_at < @before ORDER BY d.created_at LIMIT @page);
