-- name: InsertAudit :exec
INSERT INTO audit_entry (occurred_at, actor, action, organization_id, key_id, request_id, details)
VALUES (@occurred_at, @actor, @action, @organization_id, @key_id, @request_id, @details);

-- name: ListAudit :many
SELECT id, occurred_at, actor, action, organization_id, key_id, request_id, details
FROM audit_entry
WHERE (@organization_id::text = '' OR organization_id = @organization_id) AND (@key_id::text = '' OR key_id = @key_id)
  AND (@before::bigint = 0 OR id < @before)
ORDER BY id DESC
LIMIT @page;
