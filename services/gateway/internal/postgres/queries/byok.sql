-- name: GetByok :one
SELECT * FROM byok_config WHERE organization_id = @organization_id AND provider = @provider;

-- name: ListByok :many
-- ListByok returns the active configurations of an organization, by provider.
SELECT * FROM byok_config
WHERE organization_id = @organization_id AND status = 'active' AND provider > @after
ORDER BY provider
LIMIT @count;

-- name: ListStaleByok :many
-- ListStaleByok returns stale configurations by organization and provider; the rules are those of
-- byok.Config.Staleness.
SELECT * FROM byok_config
WHERE status = 'active'
  AND (@organization_id::text = '' OR organization_id = @organization_id)
  AND (@provider::text = '' OR provider = @provider)
  AND (organization_id, provider) > (@after_organization::text, @after_provider::text)
  AND (expires_at <= @now
    OR (rotation_interval_days > 0
      AND coalesce(rotated_at, created_at) + rotation_interval_days * interval '24 hours' <= @now::timestamptz)
    OR greatest(last_used_at, rotated_at, created_at) <= @unused_since::timestamptz)
ORDER BY organization_id, provider
LIMIT @count;

-- name: PutByok :exec
INSERT INTO byok_config (
    organization_id, provider, status, custody, secret_ref, sealing_key_id, ciphertext, masked_hint, fingerprint,
    credential_version, owner_principal, previous_owner_principal, created_at, updated_at, last_used_at, rotated_at,
    transferred_at, expires_at, rotation_interval_days, revision
) VALUES (
    @organization_id, @provider, @status, @custody, @secret_ref, @sealing_key_id, @ciphertext, @masked_hint, @fingerprint,
    @credential_version, @owner_principal, @previous_owner_principal, @created_at, @updated_at, @last_used_at, @rotated_at,
    @transferred_at, @expires_at, @rotation_interval_days, @revision
)
ON CONFLICT (organization_id, provider) DO UPDATE SET
    status = EXCLUDED.status, custody = EXCLUDED.custody, secret_ref = EXCLUDED.secret_ref,
    sealing_key_id = EXCLUDED.sealing_key_id, ciphertext = EXCLUDED.ciphertext, masked_hint = EXCLUDED.masked_hint,
    fingerprint = EXCLUDED.fingerprint, credential_version = EXCLUDED.credential_version,
    owner_principal = EXCLUDED.owner_principal, previous_owner_principal = EXCLUDED.previous_owner_principal,
    created_at = EXCLUDED.created_at, updated_at = EXCLUDED.updated_at, last_used_at = EXCLUDED.last_used_at,
    rotated_at = EXCLUDED.rotated_at, transferred_at = EXCLUDED.transferred_at, expires_at = EXCLUDED.expires_at,
    rotation_interval_days = EXCLUDED.rotation_interval_days, revision = EXCLUDED.revision;

-- name: EraseByok :execrows
-- EraseByok removes all credentials. The remaining row shows only that a configuration existed, and when it was
-- erased.
UPDATE byok_config SET
    status = 'erased', custody = '', secret_ref = '', sealing_key_id = '', ciphertext = NULL, masked_hint = '', fingerprint = '',
    updated_at = @now, revision = @revision
WHERE organization_id = @organization_id AND status <> 'erased';

-- name: CountByok :one
-- CountByok counts the configurations that still hold a credential.
SELECT count(*) FROM byok_config WHERE organization_id = @organization_id AND custody <> '';

-- name: ByokRevision :one
SELECT version FROM control_topic WHERE topic = 'credential';

-- name: ByokChangedSince :many
SELECT * FROM byok_config
WHERE (revision, organization_id, provider) > (@revision::bigint, @organization_id::text, @provider::text)
ORDER BY revision, organization_id, provider
LIMIT @count;

-- name: UseByok :exec
-- UseByok records several uses at once; the times only increase.
UPDATE byok_config SET last_used_at = used.at
FROM (
    SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@providers::text[]) AS provider,
        unnest(@used_ats::timestamptz[]) AS at
) AS used
WHERE byok_config.organization_id = used.organization_id AND byok_config.provider = used.provider
  AND byok_config.status = 'active'
  AND used.at >= coalesce(byok_config.rotated_at, byok_config.created_at)
  AND (byok_config.last_used_at IS NULL OR byok_config.last_used_at < used.at);
