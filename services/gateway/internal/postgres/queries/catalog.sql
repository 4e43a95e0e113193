-- name: Deprecations :many
SELECT provider, model, successor, reason, cutoff, deprecated_at, deprecated_by, updated_at, version FROM model_deprecation;

-- name: GetDeprecation :one
SELECT provider, model, successor, reason, cutoff, deprecated_at, deprecated_by, updated_at, version
FROM model_deprecation WHERE provider = @provider AND model = @model;

-- name: PutDeprecation :exec
INSERT INTO model_deprecation (provider, model, successor, reason, cutoff, deprecated_at, deprecated_by, updated_at, version)
VALUES (@provider, @model, @successor, @reason, @cutoff, @deprecated_at, @deprecated_by, @updated_at, @version)
ON CONFLICT (provider, model) DO UPDATE SET successor = excluded.successor, reason = excluded.reason, cutoff = excluded.cutoff,
    deprecated_by = excluded.deprecated_by, updated_at = excluded.updated_at, version = excluded.version;
