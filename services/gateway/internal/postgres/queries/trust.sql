-- name: LockTrust :exec
-- LockTrust serializes writers of one server's records, including those of its first one.
SELECT pg_advisory_xact_lock(hashtextextended('trust ' || @organization_id::text || ' ' || @server_id::text, 0));

-- name: GetTrust :one
SELECT
    organization_id, server_id, version, level, effective_level, review_status,
    assigned_by, assigned_at, assign_reason, reviewed_by, reviewed_at, review_reason
FROM trust_record
WHERE organization_id = @organization_id AND server_id = @server_id AND present;

-- name: RetireTrust :exec
UPDATE trust_record SET present = false
WHERE organization_id = @organization_id AND server_id = @server_id AND present;

-- name: CreateTrust :exec
INSERT INTO trust_record (
    organization_id, server_id, version, level, effective_level, review_status, assigned_by, assigned_at, assign_reason,
    control_version
) VALUES (
    @organization_id, @server_id, @version, @level, @effective_level, @review_status, @assigned_by, @assigned_at, @assign_reason,
    @control_version
);

-- name: ReviewTrust :exec
UPDATE trust_record
SET
    effective_level = @effective_level, review_status = @review_status,
    reviewed_by = @reviewed_by, reviewed_at = @reviewed_at::timestamptz, review_reason = @review_reason,
    control_version = @control_version
WHERE organization_id = @organization_id AND server_id = @server_id AND version = @version;

-- name: ListTrust :many
SELECT
    organization_id, server_id, version, level, effective_level, review_status,
    assigned_by, assigned_at, assign_reason, reviewed_by, reviewed_at, review_reason
FROM trust_record
WHERE organization_id = @organization_id
    AND present
    AND server_id > @after::text
    AND (@review_status::text = '' OR review_status = @review_status)
ORDER BY server_id
LIMIT @count;

-- name: ListTrustHistory :many
SELECT
    organization_id, server_id, version, level, effective_level, review_status,
    assigned_by, assigned_at, assign_reason, reviewed_by, reviewed_at, review_reason
FROM trust_record
WHERE organization_id = @organization_id
    AND server_id = @server_id
    AND (@below::integer = 0 OR version < @below)
ORDER BY version DESC
LIMIT @count;

-- name: TrustSince :many
SELECT organization_id, server_id, effective_level, control_version
FROM trust_record
WHERE present AND control_version > @since;
