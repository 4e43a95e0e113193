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
-- OverdueApprovals takes turns by organization: first the one that is due the longest of each. It reads no more than the
-- limit of any organization.
WITH RECURSIVE organization AS (
    (SELECT w.organization_id FROM approval AS w WHERE w.state = 'waiting' ORDER BY w.organization_id LIMIT 1)
    UNION ALL
    SELECT following.organization_id FROM organization AS o CROSS JOIN LATERAL (
        SELECT w.organization_id FROM approval AS w
        WHERE w.state = 'waiting' AND w.organization_id > o.organization_id ORDER BY w.organization_id LIMIT 1
    ) AS following
), turn AS (
    SELECT o.organization_id, due.ref, row_number() OVER (PARTITION BY o.organization_id ORDER BY due.since, due.ref) AS place
    FROM organization AS o CROSS JOIN LATERAL (
        SELECT w.ref, coalesce(w.next_check, w.expires_at) AS since FROM approval AS w
        WHERE w.state = 'waiting' AND w.organization_id = o.organization_id
            AND coalesce(w.next_check, w.expires_at) <= @now::timestamptz AND w.expires_at < @now
        ORDER BY coalesce(w.next_check, w.expires_at) LIMIT @most
    ) AS due
)
SELECT sqlc.embed(a)
FROM turn AS t JOIN approval AS a ON a.organization_id = t.organization_id AND a.ref = t.ref
ORDER BY t.place, coalesce(a.next_check, a.expires_at) LIMIT @most;

-- name: PostponeApproval :exec
UPDATE approval SET checks = @checks, next_check = @next_check::timestamptz
WHERE organization_id = @organization_id AND ref = @ref;

-- name: DueApprovalNotices :many
-- DueApprovalNotices takes turns by organization, as OverdueApprovals does: an organization with many notices does not
-- delay the notices of others.
WITH RECURSIVE organization AS (
    (SELECT w.organization_id FROM approval_notice AS w WHERE w.state = @state ORDER BY w.organization_id LIMIT 1)
    UNION ALL
    SELECT following.organization_id FROM organization AS o CROSS JOIN LATERAL (
        SELECT w.organization_id FROM approval_notice AS w
        WHERE w.state = @state AND w.organization_id > o.organization_id ORDER BY w.organization_id LIMIT 1
    ) AS following
), turn AS (
    SELECT due.id, row_number() OVER (PARTITION BY o.organization_id ORDER BY due.due_at, due.id) AS place
    FROM organization AS o CROSS JOIN LATERAL (
        SELECT w.id, w.due_at FROM approval_notice AS w
        WHERE w.state = @state AND w.organization_id = o.organization_id AND w.due_at <= @now
        ORDER BY w.due_at, w.id LIMIT @most
    ) AS due
)
SELECT sqlc.embed(n), sqlc.embed(a)
FROM turn AS t JOIN approval_notice AS n ON n.id = t.id
JOIN approval AS a ON a.organization_id = n.organization_id AND a.ref = n.ref
ORDER BY t.place, n.due_at, n.id LIMIT @most;

-- name: GetApprovalNotice :one
SELECT sqlc.embed(n), sqlc.embed(a)
FROM approval_notice n JOIN approval a USING (organization_id, ref) WHERE n.id = @id;

-- name: SaveApprovalNotice :exec
UPDATE approval_notice
SET state = @state, due_at = @due_at, attempts = @attempts, sealed = @sealed, notification_id = @notification_id
WHERE id = @id;

-- name: PurgeApprovals :execrows
DELETE FROM approval WHERE expires_at < @before;
