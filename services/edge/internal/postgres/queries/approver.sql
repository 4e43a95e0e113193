-- name: GetApproverGroups :one
SELECT groups FROM approver_groups WHERE organization_id = @organization_id;

-- name: PutApproverGroups :exec
INSERT INTO approver_groups (organization_id, groups) VALUES (@organization_id, @groups)
ON CONFLICT (organization_id) DO UPDATE SET groups = excluded.groups, updated_at = now();
