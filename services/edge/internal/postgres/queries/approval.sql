-- name: LockApprovalCursor :one
-- LockApprovalCursor lets one replica follow approvals at a time; the others get no row.
SELECT cursor FROM approval_cursor FOR UPDATE SKIP LOCKED;

-- name: MoveApprovalCursor :exec
UPDATE approval_cursor SET cursor = @cursor;

-- name: OpenApproval :execrows
INSERT INTO approval (organization_id, ref, group_name, proof, server, tool, rule, requested_by, state, requested_at, expires_at)
VALUES (@organization_id, @ref, @group_name, @proof, @server, @tool, @rule, @requested_by, 'waiting', @requested_at, @expires_at)
ON CONFLICT (organization_id, ref) DO NOTHING;

-- name: PlanApprovalNotices :exec
INSERT INTO approval_notice (id, organization_id, ref, step, channel, member, conversation, state, due_at)
SELECT unnest(@ids::text[]), @organization_id, @ref, unnest(@steps::integer[]), unnest(@channels::text[]), unnest(@members::text[]),
    unnest(@conversations::text[]), 'planned', unnest(@due_ats::timestamptz[]);

-- name: CloseApproval :execrows
UPDATE approval SET state = @state, decided_by = @decided_by, closed_at = @closed_at::timestamptz
WHERE organization_id = @organization_id AND ref = @ref AND state = 'waiting';

-- name: OpenApprovalNotices :many
SELECT id, state, attempts FROM approval_notice
WHERE organization_id = @organization_id AND ref = @ref AND state IN ('planned', 'prepared', 'sent');

-- name: MoveApprovalNotices :exec
UPDATE approval_notice SET state = @state, due_at = @due_at, attempts = 0, sealed = NULL WHERE id = ANY(@ids::text[]);

-- name: OverdueApprovals :many
SELECT sqlc.embed(approval) FROM approval
WHERE state = 'waiting' AND expires_at < @now AND (next_check IS NULL OR next_check <= @now)
ORDER BY coalesce(next_check, expires_at) LIMIT @most;

-- name: PostponeApproval :exec
UPDATE approval SET checks = @checks, next_check = @next_check::timestamptz
WHERE organization_id = @organization_id AND ref = @ref;

-- name: DueApprovalNotices :many
SELECT sqlc.embed(n), sqlc.embed(a)
FROM approval_notice n JOIN approval a USING (organization_id, ref)
WHERE n.state = @state AND n.due_at <= @now ORDER BY n.due_at, n.id LIMIT @most;

-- name: GetApprovalNotice :one
SELECT sqlc.embed(n), sqlc.embed(a)
FROM approval_notice n JOIN approval a USING (organization_id, ref) WHERE n.id = @id;

-- name: SaveApprovalNotice :exec
UPDATE approval_notice
SET state = @state, due_at = @due_at, attempts = @attempts, sealed = @sealed, notification_id = @notification_id
WHERE id = @id;

-- name: PurgeApprovals :execrows
DELETE FROM approval WHERE expires_at < @before;
