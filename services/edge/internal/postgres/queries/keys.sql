-- name: NextPosition :one
UPDATE key_feed SET position = position + 1 RETURNING position;

-- name: Position :one
SELECT position FROM key_feed;

-- name: InsertKey :exec
INSERT INTO api_keys (id, digest, organization_id, product, permissions, name, environment, created_at, expires_at, position)
VALUES (@id, @digest, @organization_id, @product, @permissions, @name, @environment, @created_at, @expires_at, @position);

-- name: KeyByDigest :one
SELECT id, organization_id, product, permissions, name, environment, created_at, expires_at, revoked_at, last_used_at
FROM api_keys WHERE digest = @digest;

-- name: ListKeys :many
SELECT id, organization_id, product, permissions, name, environment, created_at, expires_at, revoked_at, last_used_at
FROM api_keys
WHERE (@organization_id::text = '' OR organization_id = @organization_id) AND id > @after
ORDER BY id
LIMIT @page;

-- name: RevokeKey :one
-- The first revocation stands; the row counts as changed every time, so that
-- repeating the command heals a replica that somehow missed it.
UPDATE api_keys SET revoked_at = coalesce(revoked_at, @now), position = @position
WHERE id = @id
RETURNING digest;

-- name: ChangedSince :many
SELECT digest, position FROM api_keys WHERE position > @position ORDER BY position LIMIT @page;

-- name: TouchKeys :exec
-- All replicas lock the rows in the order of their ids, whatever the plan.
WITH locked AS MATERIALIZED (
    SELECT id FROM api_keys WHERE id = ANY (@ids::text[]) ORDER BY id FOR NO KEY UPDATE
)
UPDATE api_keys AS k SET last_used_at = u.used
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@used::timestamptz[]) AS used) AS u
WHERE k.id IN (SELECT id FROM locked) AND k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < u.used);
