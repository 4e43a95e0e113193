-- name: NextTokenPosition :one
UPDATE token_feed SET position = position + 1 RETURNING position;

-- name: TokenPosition :one
SELECT position FROM token_feed;

-- name: VerifyingKeys :many
SELECT id, public_key, signs_from FROM signing_keys ORDER BY signs_from;

-- name: SigningKeys :many
SELECT id, public_key, sealed_seed, signs_from FROM signing_keys ORDER BY signs_from;

-- name: InsertSigningKey :exec
INSERT INTO signing_keys (id, public_key, sealed_seed, signs_from) VALUES (@id, @public_key, @sealed_seed, @signs_from);

-- name: DeleteSigningKeys :exec
DELETE FROM signing_keys WHERE id = ANY (@ids::text[]);

-- name: TokenRevocations :many
SELECT organization_id, user_id, position, revoked_at FROM token_revocations WHERE revoked_at > @since;

-- name: RevokeTokens :exec
INSERT INTO token_revocations (organization_id, user_id, position, revoked_at)
VALUES (@organization_id, @user_id, @position, @revoked_at)
ON CONFLICT (organization_id, user_id) DO UPDATE
SET position = excluded.position, revoked_at = greatest(token_revocations.revoked_at, excluded.revoked_at);

-- name: ForgetTokenRevocations :exec
DELETE FROM token_revocations WHERE revoked_at <= @before;

-- name: AllOrigins :many
SELECT organization_id, origins FROM organization_origins;

-- name: Origins :one
SELECT origins FROM organization_origins WHERE organization_id = @organization_id;

-- name: SetOrigins :exec
INSERT INTO organization_origins (organization_id, origins, updated_at)
VALUES (@organization_id, @origins, @updated_at)
ON CONFLICT (organization_id) DO UPDATE SET origins = excluded.origins, updated_at = excluded.updated_at;

-- name: RemoveOrigins :exec
DELETE FROM organization_origins WHERE organization_id = @organization_id;

-- name: AllOrganizationLimits :many
SELECT organization_id, requests, window_seconds, burst FROM organization_limits;
