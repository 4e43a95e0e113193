-- name: LockOrganization :exec
-- LockOrganization excludes fan-outs of an organization while its endpoints change, and the reverse: an event goes to
-- exactly the endpoints that are active when it is committed.
SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || '/endpoints/' || @organization_id::text, 0));

-- name: ShareOrganization :exec
SELECT pg_advisory_xact_lock_shared(hashtextextended(current_schema() || '/endpoints/' || @organization_id::text, 0));

-- name: HasEndpoints :one
-- HasEndpoints reports whether the organization has at least that many endpoints.
SELECT count(*) >= @number::integer AS full
FROM (SELECT FROM endpoints WHERE organization_id = @organization_id AND deleted_at IS NULL LIMIT @number::integer) AS those;

-- name: AddEndpointFlow :one
INSERT INTO flow (organization_id, scheme, host, port, endpoint_id, rate_per_second)
VALUES (@organization_id, @scheme, @host, @port, @endpoint_id, @rate_per_second)
RETURNING flow_id;

-- name: AddEndpoint :exec
INSERT INTO endpoints (id, organization_id, owner_id, url, flow_id, event_types, signing_mode, sealed_secret,
                       rate_limit_per_second, description, created_at, updated_at, custom_headers, auth, sealed_auth, signatures,
                       filter)
VALUES (@id, @organization_id, NULLIF(@owner_id::text, ''), @url, @flow_id, @event_types, @signing_mode, @sealed_secret,
        @rate_limit_per_second, @description, @created_at, @created_at, @custom_headers, @auth, @sealed_auth, @signatures,
        @filter);

-- name: GetEndpoint :one
-- GetEndpoint finds an endpoint only if its owner is owner_id; both may be empty.
SELECT id, organization_id, owner_id, url, flow_id, event_types, active, signing_mode, sealed_secret, sealed_previous_secret,
       previous_secret_expires_at, rate_limit_per_second, description, failing_since, disabled_reason, disabled_at,
       created_at, updated_at, deleted_at, failures, failing_reported_at, custom_headers, auth, sealed_auth, signatures, filter,
       sealed_older_secrets, older_secrets_expire_at, moved_at, moves
FROM endpoints
WHERE id = @id AND organization_id = @organization_id AND deleted_at IS NULL
  AND coalesce(owner_id, '') = @owner_id::text;

-- name: LockEndpoint :one
SELECT id, organization_id, owner_id, url, flow_id, event_types, active, signing_mode, sealed_secret, sealed_previous_secret,
       previous_secret_expires_at, rate_limit_per_second, description, failing_since, disabled_reason, disabled_at,
       created_at, updated_at, deleted_at, failures, failing_reported_at, custom_headers, auth, sealed_auth, signatures, filter,
       sealed_older_secrets, older_secrets_expire_at, moved_at, moves
FROM endpoints
WHERE id = @id AND organization_id = @organization_id AND deleted_at IS NULL
  AND coalesce(owner_id, '') = @owner_id::text
FOR UPDATE;

-- name: ListEndpoints :many
SELECT id, organization_id, owner_id, url, flow_id, event_types, active, signing_mode, sealed_secret, sealed_previous_secret,
       previous_secret_expires_at, rate_limit_per_second, description, failing_since, disabled_reason, disabled_at,
       created_at, updated_at, deleted_at, failures, failing_reported_at, custom_headers, auth, sealed_auth, signatures, filter,
       sealed_older_secrets, older_secrets_expire_at, moved_at, moves
FROM endpoints
WHERE organization_id = @organization_id AND deleted_at IS NULL AND id < @before
  AND (@owner_id::text = '' OR owner_id = @owner_id::text)
  AND (sqlc.narg(active)::boolean IS NULL OR active = sqlc.narg(active)::boolean)
  AND (cardinality(@patterns::text[]) = 0 OR event_types && @patterns::text[])
ORDER BY id DESC
LIMIT @page;

-- name: ListEveryEndpoint :many
-- ListEveryEndpoint is ListEndpoints for all organizations, along the primary key.
SELECT id, organization_id, owner_id, url, flow_id, event_types, active, signing_mode, sealed_secret, sealed_previous_secret,
       previous_secret_expires_at, rate_limit_per_second, description, failing_since, disabled_reason, disabled_at,
       created_at, updated_at, deleted_at, failures, failing_reported_at, custom_headers, auth, sealed_auth, signatures, filter,
       sealed_older_secrets, older_secrets_expire_at, moved_at, moves
FROM endpoints
WHERE deleted_at IS NULL AND id < @before
  AND (@owner_id::text = '' OR owner_id = @owner_id::text)
  AND (sqlc.narg(active)::boolean IS NULL OR active = sqlc.narg(active)::boolean)
  AND (cardinality(@patterns::text[]) = 0 OR event_types && @patterns::text[])
ORDER BY id DESC
LIMIT @page;

-- name: UpdateEndpoint :exec
-- UpdateEndpoint sets moved_at for the previous release, which doesn't know moves.
UPDATE endpoints
SET url = @url, event_types = @event_types, active = @active, sealed_secret = @sealed_secret,
    sealed_previous_secret = @sealed_previous_secret,
    previous_secret_expires_at = NULLIF(@previous_secret_expires_at::timestamptz, 'epoch'),
    sealed_older_secrets = @sealed_older_secrets, older_secrets_expire_at = @older_secrets_expire_at,
    rate_limit_per_second = @rate_limit_per_second, description = @description, updated_at = @updated_at,
    custom_headers = @custom_headers, auth = @auth, sealed_auth = @sealed_auth, signatures = @signatures,
    filter = @filter, moves = @moves, moved_at = CASE WHEN moves = @moves THEN moved_at ELSE now() END
WHERE id = @id;

-- name: ClearFailures :exec
-- ClearFailures resets what the endpoint's failures have led to.
UPDATE endpoints
SET disabled_reason = NULL, disabled_at = NULL, failing_since = NULL, failures = 0, failing_reported_at = NULL
WHERE id = @id;

-- name: SetFlow :exec
UPDATE flow SET scheme = @scheme, host = @host, port = @port, rate_per_second = @rate_per_second WHERE flow_id = @flow_id;

-- name: PauseFlow :exec
UPDATE flow
SET paused = true, state = 'open', parked_reason = @reason::text, parked_until = 'infinity', ready_at = 'infinity'
WHERE flow_id = @flow_id;

-- name: ResumeFlow :exec
-- ResumeFlow makes the flow ready at once, with a new circuit; without rows it is put to sleep again.
UPDATE flow
SET paused = false, state = 'closed', parked_reason = NULL, parked_until = '-infinity', opened = 0, ready_at = now(),
    circuit = circuit + 1
WHERE flow_id = @flow_id;

-- name: DeleteEndpoint :exec
UPDATE endpoints
SET active = false, deleted_at = now(), updated_at = now(), sealed_previous_secret = NULL,
    previous_secret_expires_at = NULL, sealed_older_secrets = '{}', older_secrets_expire_at = '{}', custom_headers = NULL,
    auth = NULL, sealed_auth = NULL
WHERE id = @id;

-- name: ListDeletedFlows :many
SELECT flow_id FROM flow WHERE parked_reason = 'endpoint_deleted' ORDER BY flow_id LIMIT @page;

-- name: LockFlow :many
-- LockFlow waits for transactions that add rows to the flow, so that the next statement sees the rows.
SELECT flow_id FROM flow WHERE flow_id = @flow_id AND parked_reason = 'endpoint_deleted' FOR UPDATE;

-- name: RemoveFlow :exec
WITH health AS (DELETE FROM flow_health h WHERE h.flow_id = @flow_id),
     keys AS (DELETE FROM ordering_key k WHERE k.flow_id = @flow_id)
DELETE FROM flow f WHERE f.flow_id = @flow_id;
