-- name: NextPosition :one
UPDATE key_feed SET position = position + 1 RETURNING position;

-- name: MovePosition :exec
UPDATE key_feed SET position = @last::bigint;

-- name: Position :one
SELECT position FROM key_feed;

-- name: InsertKey :exec
INSERT INTO api_keys (id, digest, organization_id, product, permissions, name, environment, created_at, expires_at,
    limit_requests, limit_window_seconds, limit_burst, tokens_per_minute, models, budget_ceiling_cents, budget_period, class, origin, plan, position)
VALUES (@id, @digest, @organization_id, @product, @permissions, @name, @environment, @created_at, @expires_at,
    sqlc.narg(limit_requests), sqlc.narg(limit_window_seconds), sqlc.narg(limit_burst), sqlc.narg(tokens_per_minute), sqlc.narg(models),
    sqlc.narg(budget_ceiling_cents), sqlc.narg(budget_period), sqlc.narg(class), sqlc.narg(origin), sqlc.narg(plan), @position);

-- name: KeyByDigest :one
SELECT k.id, k.digest, k.organization_id, k.product, k.permissions, k.name, k.environment, k.created_at, k.expires_at, k.revoked_at,
    k.last_used_at, k.limit_requests, k.limit_window_seconds, k.limit_burst, k.tokens_per_minute, k.models, k.budget_ceiling_cents,
    k.budget_period, k.class, k.origin, k.replaced_by, k.plan, l.requests, l.window_seconds, l.burst, p.plan AS organization_plan
FROM api_keys AS k
LEFT JOIN organization_limits AS l ON l.organization_id = k.organization_id
LEFT JOIN organization_plans AS p ON p.organization_id = k.organization_id
WHERE k.digest = @digest;

-- name: KeyByID :one
SELECT k.id, k.digest, k.organization_id, k.product, k.permissions, k.name, k.environment, k.created_at, k.expires_at, k.revoked_at,
    k.last_used_at, k.limit_requests, k.limit_window_seconds, k.limit_burst, k.tokens_per_minute, k.models, k.budget_ceiling_cents,
    k.budget_period, k.class, k.origin, k.replaced_by, k.plan, l.requests, l.window_seconds, l.burst, p.plan AS organization_plan
FROM api_keys AS k
LEFT JOIN organization_limits AS l ON l.organization_id = k.organization_id
LEFT JOIN organization_plans AS p ON p.organization_id = k.organization_id
WHERE k.id = @id;

-- name: LockKey :one
SELECT k.id, k.digest, k.organization_id, k.product, k.permissions, k.name, k.environment, k.created_at, k.expires_at, k.revoked_at,
    k.last_used_at, k.limit_requests, k.limit_window_seconds, k.limit_burst, k.tokens_per_minute, k.models, k.budget_ceiling_cents,
    k.budget_period, k.class, k.origin, k.replaced_by, k.plan, l.requests, l.window_seconds, l.burst, p.plan AS organization_plan
FROM api_keys AS k
LEFT JOIN organization_limits AS l ON l.organization_id = k.organization_id
LEFT JOIN organization_plans AS p ON p.organization_id = k.organization_id
WHERE k.id = @id
FOR UPDATE OF k;

-- name: ListKeys :many
SELECT k.id, k.digest, k.organization_id, k.product, k.permissions, k.name, k.environment, k.created_at, k.expires_at, k.revoked_at,
    k.last_used_at, k.limit_requests, k.limit_window_seconds, k.limit_burst, k.tokens_per_minute, k.models, k.budget_ceiling_cents,
    k.budget_period, k.class, k.origin, k.replaced_by, k.plan, l.requests, l.window_seconds, l.burst, p.plan AS organization_plan
FROM api_keys AS k
LEFT JOIN organization_limits AS l ON l.organization_id = k.organization_id
LEFT JOIN organization_plans AS p ON p.organization_id = k.organization_id
WHERE (@organization_id::text = '' OR k.organization_id = @organization_id) AND k.id > @after
ORDER BY k.id
LIMIT @page;

-- name: UpdateKey :exec
UPDATE api_keys
SET name = @name, expires_at = @expires_at, revoked_at = @revoked_at, replaced_by = sqlc.narg(replaced_by),
    limit_requests = sqlc.narg(limit_requests), limit_window_seconds = sqlc.narg(limit_window_seconds),
    limit_burst = sqlc.narg(limit_burst), tokens_per_minute = sqlc.narg(tokens_per_minute), models = sqlc.narg(models),
    budget_ceiling_cents = sqlc.narg(budget_ceiling_cents), budget_period = sqlc.narg(budget_period), class = sqlc.narg(class),
    plan = sqlc.narg(plan), position = @position
WHERE id = @id;

-- name: ChangedSince :many
SELECT digest, position FROM api_keys WHERE position > @position ORDER BY position LIMIT @page;

-- name: RenumberOrganization :many
-- RenumberOrganization gives all keys of an organization new numbers after the feed's last one.
UPDATE api_keys AS k SET position = f.position + n.place
FROM key_feed AS f, (
    SELECT a.id, row_number() OVER (ORDER BY a.id) AS place FROM api_keys AS a WHERE a.organization_id = @organization_id
) AS n
WHERE k.id = n.id
RETURNING k.position;

-- name: OrganizationLimit :one
SELECT requests, window_seconds, burst FROM organization_limits WHERE organization_id = @organization_id;

-- name: SetOrganizationLimit :exec
INSERT INTO organization_limits (organization_id, requests, window_seconds, burst, updated_at)
VALUES (@organization_id, @requests, @window_seconds, @burst, @updated_at)
ON CONFLICT (organization_id) DO UPDATE
SET requests = excluded.requests, window_seconds = excluded.window_seconds, burst = excluded.burst, updated_at = excluded.updated_at;

-- name: RemoveOrganizationLimit :exec
DELETE FROM organization_limits WHERE organization_id = @organization_id;

-- name: TouchKeys :exec
-- TouchKeys locks the rows in the order of their ids, whatever the plan, so that replicas do not deadlock.
WITH locked AS MATERIALIZED (
    SELECT id FROM api_keys WHERE id = ANY (@ids::text[]) ORDER BY id FOR NO KEY UPDATE
)
UPDATE api_keys AS k SET last_used_at = u.used
FROM (SELECT unnest(@ids::text[]) AS id, unnest(@used::timestamptz[]) AS used) AS u
WHERE k.id IN (SELECT id FROM locked) AND k.id = u.id AND (k.last_used_at IS NULL OR k.last_used_at < u.used);
