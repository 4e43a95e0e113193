-- name: CreateStanding :one
INSERT INTO standing_approval (
    ref, organization_id, server_id, tool, definition_digest, expression, uses, approval_ref, created_by, reason, created_at, expires_at
) VALUES (
    @ref, @organization_id, @server_id, @tool, @definition_digest, @expression, @uses, @approval_ref, @created_by, @reason,
    @created_at, @expires_at
)
RETURNING id;

-- name: ActiveStanding :many
-- ActiveStanding returns the standing approvals by which calls of a tool may be approved, oldest first.
SELECT *
FROM standing_approval
WHERE organization_id = @organization_id AND server_id = @server_id AND tool = @tool
    AND revoked_at IS NULL AND expires_at > @now::timestamptz AND used < uses
ORDER BY id
LIMIT @most;

-- name: UseStanding :execrows
UPDATE standing_approval
SET used = used + 1
WHERE id = @id AND revoked_at IS NULL AND expires_at > @now::timestamptz AND used < uses;

-- name: ListStanding :many
SELECT *
FROM standing_approval
WHERE organization_id = @organization_id
    AND (@before::bigint = 0 OR id < @before)
    AND (@server_id::text = '' OR server_id = @server_id)
    AND (@tool::text = '' OR tool = @tool)
ORDER BY id DESC
LIMIT @count;

-- name: RevokeStanding :one
UPDATE standing_approval
SET revoked_by = @revoked_by, revoked_at = @revoked_at::timestamptz
WHERE ref = @ref AND organization_id = @organization_id AND revoked_at IS NULL AND expires_at > @revoked_at AND used < uses
RETURNING *;
