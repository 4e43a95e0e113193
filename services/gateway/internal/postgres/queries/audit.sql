-- name: AppendAudit :one
INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
VALUES (@actor, @actor_role, @action, @organization_id, @subject_type, @subject, @request_id, @reason, @details)
RETURNING id, occurred_at;

-- name: ListAudit :many
-- ListAudit returns entries, newest first. An action that ends in a full stop selects a group.
SELECT id, occurred_at, actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details
FROM audit_entry
WHERE (@before::bigint = 0 OR id < @before)
  AND (@organization_id::text = '' OR organization_id = @organization_id)
  AND (@actor::text = '' OR actor = @actor)
  AND (@action::text = '' OR action = @action OR (right(@action, 1) = '.' AND starts_with(action, @action)))
  AND (@subject::text = '' OR subject = @subject)
  AND (sqlc.narg('since')::timestamptz IS NULL OR occurred_at >= sqlc.narg('since'))
  AND (sqlc.narg('until')::timestamptz IS NULL OR occurred_at < sqlc.narg('until'))
ORDER BY id DESC
LIMIT @count;
