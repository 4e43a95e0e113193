-- name: CreateApproval :exec
INSERT INTO approval (
    ref, organization_id, tool, arguments, requested_by, run_id, server_id, description, created_at, expires_at
) VALUES (
    @ref, @organization_id, @tool, @arguments, @requested_by, @run_id, @server_id, @description, @created_at, @expires_at
);

-- name: GetApproval :one
SELECT
    id, ref, organization_id, status, tool, arguments, requested_by, run_id, server_id, description,
    decided_by, decided_at, reason, created_at, expires_at
FROM approval
WHERE ref = @ref AND organization_id = @organization_id;

-- name: LockApproval :one
-- LockApproval serializes concurrent decisions on one approval.
SELECT
    id, ref, organization_id, status, tool, arguments, requested_by, run_id, server_id, description,
    decided_by, decided_at, reason, created_at, expires_at
FROM approval
WHERE ref = @ref AND organization_id = @organization_id
FOR UPDATE;

-- name: DecideApproval :exec
UPDATE approval
SET status = @status, decided_by = @decided_by, decided_at = @decided_at::timestamptz, reason = @reason
WHERE id = @id;

-- name: ListApprovals :many
-- ListApprovals returns approvals, newest first. A pending approval past its time counts as expired.
SELECT
    id, ref, organization_id, status, tool, arguments, requested_by, run_id, server_id, description,
    decided_by, decided_at, reason, created_at, expires_at
FROM approval
WHERE organization_id = @organization_id
    AND (@before::bigint = 0 OR id < @before)
    AND (@run_id::text = '' OR run_id = @run_id)
    AND (@tool::text = '' OR tool = @tool)
    AND CASE @status::text
        WHEN '' THEN true
        WHEN 'pending' THEN status = 'pending' AND expires_at > @now::timestamptz
        WHEN 'expired' THEN status = 'pending' AND expires_at <= @now::timestamptz
        ELSE status = @status
    END
ORDER BY id DESC
LIMIT @count;
