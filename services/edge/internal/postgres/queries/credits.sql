-- name: LockCredits :exec
-- LockCredits makes grants of an organization follow each other, also the first ones.
SELECT pg_advisory_xact_lock(hashtextextended('credits ' || @organization_id::text, 0));

-- name: AddGrant :exec
INSERT INTO credit_grants (id, organization_id, idempotency_key, pico_usd, note, created_at, expires_at)
VALUES (@id, @organization_id, @idempotency_key, @pico_usd, @note, @created_at, @expires_at);

-- name: GrantByIdempotencyKey :one
SELECT id, organization_id, idempotency_key, pico_usd, spent_pico_usd, note, created_at, expires_at FROM credit_grants
WHERE organization_id = @organization_id AND idempotency_key = @idempotency_key;

-- name: CountOpenGrants :one
SELECT count(*) FROM credit_grants WHERE organization_id = @organization_id AND spent_pico_usd < pico_usd AND expires_at > @now;

-- name: ListGrants :many
SELECT id, organization_id, idempotency_key, pico_usd, spent_pico_usd, note, created_at, expires_at FROM credit_grants
WHERE organization_id = @organization_id AND id > @after
ORDER BY id LIMIT @page;

-- name: CreditBalance :one
SELECT count(*) AS grants,
    least(coalesce(sum(pico_usd - spent_pico_usd) FILTER (WHERE expires_at > @now), 0), 9223372036854775807)::bigint AS pico_usd
FROM credit_grants WHERE organization_id = @organization_id;

-- name: UncoveredSpend :one
SELECT least(coalesce(sum(pico_usd), 0), 9223372036854775807)::bigint FROM credit_entries
WHERE organization_id = @organization_id AND grant_id IS NULL;

-- name: CreditBalances :many
SELECT organization_id, least(sum(pico_usd - spent_pico_usd), 9223372036854775807)::bigint AS pico_usd FROM credit_grants
WHERE organization_id = ANY (@organizations::text[]) AND expires_at > @now
GROUP BY organization_id;

-- name: Granted :many
-- Granted returns those of organizations that ever had a grant.
SELECT DISTINCT organization_id FROM credit_grants WHERE organization_id = ANY (@organizations::text[]);

-- name: FirstGrant :one
SELECT created_at FROM credit_grants WHERE organization_id = @organization_id ORDER BY created_at LIMIT 1;

-- name: LockOpenGrants :many
SELECT id, pico_usd, spent_pico_usd, created_at, expires_at FROM credit_grants
WHERE organization_id = @organization_id AND spent_pico_usd < pico_usd
ORDER BY expires_at, id FOR UPDATE;

-- name: SpendGrant :exec
UPDATE credit_grants SET spent_pico_usd = spent_pico_usd + @pico_usd WHERE id = @id;

-- name: AddCreditEntry :exec
INSERT INTO credit_entries (organization_id, grant_id, pico_usd, recorded_at)
VALUES (@organization_id, sqlc.narg(grant_id), @pico_usd, @recorded_at);
