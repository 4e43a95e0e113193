-- name: SeeRefusedCredentials :exec
-- SeeRefusedCredentials records that credentials are refused, and an event for each that was not failing. One that has
-- recovered fails anew only an hour after it failed last, so that one that works now and then is not told of each time.
WITH seen AS MATERIALIZED (
    INSERT INTO credential_failing AS c (organization_id, provider, credential, status)
    SELECT s.organization_id, s.provider, s.credential, s.status
    FROM (SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@providers::text[]) AS provider,
        unnest(@credentials::text[]) AS credential, unnest(@statuses::integer[]) AS status) AS s
    ORDER BY s.organization_id, s.provider, s.credential
    ON CONFLICT (organization_id, provider, credential) DO UPDATE SET
        seen_at = now(),
        status = CASE WHEN c.recovered_at IS NULL OR c.failing_since > now() - interval '1 hour' THEN c.status ELSE excluded.status END,
        failing_since = CASE WHEN c.recovered_at IS NULL OR c.failing_since > now() - interval '1 hour' THEN c.failing_since ELSE now() END,
        recovered_at = CASE WHEN c.failing_since > now() - interval '1 hour' THEN c.recovered_at END
    RETURNING c.organization_id, c.provider, c.credential, c.status, c.failing_since, c.recovered_at
), recorded AS MATERIALIZED (
    SELECT house_event_add(organization_id, 'switchyard.credential.failing', credential_subject(provider, credential), failing_since::text,
        credential_data(organization_id, provider, credential) || jsonb_build_object('status', status, 'failing_since', failing_since),
        interval '400 days') AS done
    FROM seen WHERE recovered_at IS NULL
)
SELECT count(*) FROM recorded;

-- name: RecoverCredentials :exec
-- RecoverCredentials records that credentials were taken for calls that began after they failed, and an event for each.
WITH recovered AS MATERIALIZED (
    UPDATE credential_failing AS c SET recovered_at = now()
    FROM (SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@providers::text[]) AS provider,
        unnest(@credentials::text[]) AS credential, unnest(@begun::timestamptz[]) AS begun) AS s
    WHERE c.organization_id = s.organization_id AND c.provider = s.provider AND c.credential = s.credential
        AND c.recovered_at IS NULL AND s.begun > c.failing_since
    RETURNING c.organization_id, c.provider, c.credential, c.status, c.failing_since
), recorded AS MATERIALIZED (
    SELECT house_event_add(organization_id, 'switchyard.credential.recovered', credential_subject(provider, credential), failing_since::text,
        credential_data(organization_id, provider, credential) || jsonb_build_object('status', status, 'failing_since', failing_since)) AS done
    FROM recovered
)
SELECT count(*) FROM recorded;

-- name: FailingCredentials :many
-- FailingCredentials returns those that fail, the latest first.
SELECT organization_id, provider, credential FROM credential_failing WHERE recovered_at IS NULL ORDER BY failing_since DESC LIMIT @count::int;

-- name: PurgeCredentialEvents :execrows
-- PurgeCredentialEvents forgets credentials that no replica has met for 30 days.
WITH failing AS (
    DELETE FROM credential_failing WHERE seen_at < now() - interval '30 days'
)
DELETE FROM key_age WHERE seen_at < now() - interval '30 days';

-- name: SeeKeyAges :exec
-- SeeKeyAges records the ages of the operator's keys, and an event for each that is due for rotation.
WITH seen AS MATERIALIZED (
    INSERT INTO key_age AS k (provider, credential, fingerprint, set_at)
    SELECT s.provider, s.credential, s.fingerprint, least(s.set_at, now())
    FROM (SELECT unnest(@providers::text[]) AS provider, unnest(@credentials::text[]) AS credential,
        unnest(@fingerprints::text[]) AS fingerprint, unnest(@set_ats::timestamptz[]) AS set_at) AS s
    ORDER BY s.provider, s.credential, s.fingerprint
    ON CONFLICT (provider, credential, fingerprint) DO UPDATE SET set_at = least(k.set_at, excluded.set_at), seen_at = now()
    RETURNING k.provider, k.credential, k.fingerprint, k.set_at, @rotation_days::integer AS days
), recorded AS MATERIALIZED (
    SELECT house_event_add('', 'switchyard.credential.rotation_due', credential_subject(provider, credential), concat_ws(' ', fingerprint, days),
        credential_data('', provider, credential) || jsonb_build_object('set_at', set_at, 'rotation_days', days, 'due_at', set_at + days * interval '24 hours'),
        interval '400 days') AS done
    FROM seen WHERE days > 0 AND set_at + days * interval '24 hours' <= now()
)
SELECT count(*) FROM recorded;

-- name: ReportByokRotations :one
-- ReportByokRotations records an event for each of the next configurations whose credential is due for rotation by its own
-- rule. It returns the last of them, and how many there were.
WITH due AS MATERIALIZED (
    SELECT b.organization_id, b.provider, b.credential_version, b.rotation_interval_days AS days, coalesce(b.rotated_at, b.created_at) AS set_at
    FROM byok_config AS b
    WHERE b.status = 'active' AND b.rotation_interval_days > 0
        AND (b.organization_id, b.provider) > (@after_organization::text, @after_provider::text)
        AND coalesce(b.rotated_at, b.created_at) + b.rotation_interval_days * interval '24 hours' <= now()
    ORDER BY b.organization_id, b.provider
    LIMIT @count::int
), recorded AS MATERIALIZED (
    SELECT house_event_add(organization_id, 'switchyard.credential.rotation_due', credential_subject(provider, ''),
        concat_ws(' ', credential_version, set_at, days), credential_data(organization_id, provider, '')
            || jsonb_build_object('set_at', set_at, 'rotation_days', days, 'due_at', set_at + days * interval '24 hours'),
        interval '400 days') AS done
    FROM due
), last AS (
    SELECT d.organization_id, d.provider FROM due AS d ORDER BY d.organization_id DESC, d.provider DESC LIMIT 1
)
SELECT (SELECT count(*) FROM recorded) AS reported, coalesce((SELECT l.organization_id FROM last AS l), '')::text AS organization_id,
    coalesce((SELECT l.provider FROM last AS l), '')::text AS provider;
