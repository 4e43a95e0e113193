-- name: GetToolServer :one
SELECT
    organization_id, server_id, status, prefix, url, command, custody, header, scheme, secret_ref, sealing_key_id, ciphertext,
    fingerprint, price_pico_usd, timeout_seconds, max_concurrency, max_per_minute, version, created_by, moved_by, created_at,
    updated_at, revision, features, oauth
FROM tool_server
WHERE organization_id = @organization_id AND server_id = @server_id;

-- name: ListToolServers :many
-- ListToolServers returns a page of an organization's servers and of those of all that it has no own one in place of.
SELECT
    s.organization_id, s.server_id, s.status, s.prefix, s.url, s.command, s.custody, s.header, s.scheme, s.secret_ref,
    s.sealing_key_id, s.ciphertext, s.fingerprint, s.price_pico_usd, s.timeout_seconds, s.max_concurrency, s.max_per_minute,
    s.version, s.created_by, s.moved_by, s.created_at, s.updated_at, s.revision, s.features, s.oauth
FROM tool_server AS s
WHERE s.status = 'active'
    AND s.server_id > @after::text
    AND (s.organization_id = @organization_id::text OR (s.organization_id = '' AND NOT EXISTS (
        SELECT FROM tool_server AS own
        WHERE own.organization_id = @organization_id AND own.server_id = s.server_id AND own.status = 'active'
    )))
ORDER BY s.server_id
LIMIT @count::integer;

-- name: PutToolServer :exec
INSERT INTO tool_server (
    organization_id, server_id, status, prefix, url, command, custody, header, scheme, secret_ref, sealing_key_id, ciphertext,
    fingerprint, price_pico_usd, timeout_seconds, max_concurrency, max_per_minute, version, created_by, moved_by, created_at,
    updated_at, revision, features, oauth
) VALUES (
    @organization_id, @server_id, @status, @prefix, @url, @command, @custody, @header, @scheme, @secret_ref, @sealing_key_id,
    @ciphertext, @fingerprint, @price_pico_usd, @timeout_seconds, @max_concurrency, @max_per_minute, @version, @created_by,
    @moved_by, @created_at, @updated_at, @revision, @features, sqlc.narg(oauth)
)
ON CONFLICT (organization_id, server_id) DO UPDATE SET
    status = excluded.status, prefix = excluded.prefix, url = excluded.url, command = excluded.command, custody = excluded.custody,
    header = excluded.header, scheme = excluded.scheme, secret_ref = excluded.secret_ref, sealing_key_id = excluded.sealing_key_id,
    ciphertext = excluded.ciphertext, fingerprint = excluded.fingerprint, price_pico_usd = excluded.price_pico_usd,
    timeout_seconds = excluded.timeout_seconds, max_concurrency = excluded.max_concurrency, max_per_minute = excluded.max_per_minute,
    version = excluded.version, created_by = excluded.created_by, moved_by = excluded.moved_by, created_at = excluded.created_at,
    updated_at = excluded.updated_at, revision = excluded.revision, features = excluded.features, oauth = excluded.oauth;

-- name: ToolServerPlace :one
-- ToolServerPlace returns how many servers an organization has, and the ID of the one that has a prefix: of its own, else
-- of one of all organizations.
SELECT
    (SELECT count(*) FROM tool_server AS s WHERE s.organization_id = @organization_id::text AND s.status = 'active')::integer AS servers,
    coalesce((
        SELECT t.server_id FROM tool_server AS t
        WHERE t.organization_id IN (@organization_id, '') AND t.prefix = @prefix::text AND t.status = 'active' AND t.server_id <> @server_id::text
        ORDER BY t.organization_id DESC LIMIT 1
    ), '')::text AS holder;

-- name: DropRemovedToolServers :exec
-- DropRemovedToolServers drops servers that were removed before a time, and that every replica has seen removed since.
DELETE FROM tool_server WHERE status = 'removed' AND updated_at < @before;

-- name: DropToolDefinitions :exec
DELETE FROM tool_definition WHERE organization_id = @organization_id AND server_id = @server_id;

-- name: DropToolListing :exec
DELETE FROM tool_listing WHERE organization_id = @organization_id AND server_id = @server_id;

-- name: BeginToolListing :exec
-- BeginToolListing makes the first listing of a server due, and takes the lease from one that is under way.
INSERT INTO tool_listing (organization_id, server_id, protocol_version, failures, error_class, error_text, due_at, held_until, lease)
VALUES (@organization_id, @server_id, '', 0, '', '', now(), now(), 0)
ON CONFLICT (organization_id, server_id) DO UPDATE SET
    digest = NULL, protocol_version = '', listed_at = NULL, failures = 0, error_class = '', error_text = '', error_at = NULL,
    due_at = now(), held_until = now(), lease = tool_listing.lease + 1;

-- name: ToolListings :many
-- ToolListings returns the listings of servers.
SELECT l.organization_id, l.server_id, l.digest, l.protocol_version, l.listed_at, l.failures, l.error_class, l.error_text, l.error_at
FROM tool_listing AS l
JOIN (SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@server_ids::text[]) AS server_id) AS k
    ON l.organization_id = k.organization_id AND l.server_id = k.server_id;

-- name: ToolRevision :one
SELECT version FROM control_topic WHERE topic = 'tool';

-- name: ToolServersChangedSince :many
SELECT
    organization_id, server_id, status, prefix, url, command, custody, header, scheme, secret_ref, sealing_key_id, ciphertext,
    fingerprint, price_pico_usd, timeout_seconds, max_concurrency, max_per_minute, version, created_by, moved_by, created_at,
    updated_at, revision, features, oauth
FROM tool_server
WHERE (revision, organization_id, server_id) > (@revision::bigint, @organization_id::text, @server_id::text)
ORDER BY revision, organization_id, server_id
LIMIT @count;

-- name: TouchToolServer :exec
UPDATE tool_server SET revision = @revision WHERE organization_id = @organization_id AND server_id = @server_id;

-- name: ToolStatuses :many
-- ToolStatuses returns the definitions of servers without their texts.
SELECT d.organization_id, d.server_id, d.tool, d.digest, d.status, d.present, d.reviewed_at
FROM tool_definition AS d
JOIN (SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@server_ids::text[]) AS server_id) AS k
    ON d.organization_id = k.organization_id AND d.server_id = k.server_id;

-- name: ToolTexts :many
-- ToolTexts returns the present definitions of a server.
SELECT tool, digest, definition, reviewed_by
FROM tool_definition
WHERE organization_id = @organization_id AND server_id = @server_id AND present;

-- name: ListToolDefinitions :many
-- ListToolDefinitions returns a page of definitions: the present one of each tool, else the one that was reviewed last. Each
-- is with the one that was approved last, if that is another.
SELECT
    d.tool, d.digest, d.definition, d.status, d.present, d.first_seen_at, coalesce(d.gone_at, l.listed_at, d.first_seen_at)::timestamptz AS seen_at,
    d.reviewed_by, d.review_reason, d.reviewed_at, a.digest AS approved_digest, coalesce(a.definition, '')::text AS approved_definition
FROM (
    SELECT DISTINCT ON (t.tool)
        t.organization_id, t.server_id, t.tool, t.digest, t.definition, t.status, t.present, t.first_seen_at, t.gone_at,
        t.reviewed_by, t.review_reason, t.reviewed_at
    FROM tool_definition AS t
    WHERE t.organization_id = @organization_id AND t.server_id = @server_id AND t.tool > @after::text
    ORDER BY t.tool, t.present DESC, t.reviewed_at DESC
) AS d
LEFT JOIN tool_definition AS a
    ON a.organization_id = d.organization_id AND a.server_id = d.server_id AND a.tool = d.tool
        AND a.status = 'approved' AND a.digest <> d.digest
LEFT JOIN tool_listing AS l ON l.organization_id = d.organization_id AND l.server_id = d.server_id
WHERE @status::text = '' OR d.status = @status
ORDER BY d.tool
LIMIT @count::integer;

-- name: PresentToolDefinition :one
-- PresentToolDefinition returns a tool's definition in the latest listing, else the one that was reviewed last.
SELECT
    d.tool, d.digest, d.definition, d.status, d.present, d.first_seen_at, coalesce(d.gone_at, l.listed_at, d.first_seen_at)::timestamptz AS seen_at,
    d.reviewed_by, d.review_reason, d.reviewed_at
FROM tool_definition AS d
LEFT JOIN tool_listing AS l ON l.organization_id = d.organization_id AND l.server_id = d.server_id
WHERE d.organization_id = @organization_id AND d.server_id = @server_id AND d.tool = @tool
ORDER BY d.present DESC, d.reviewed_at DESC
LIMIT 1;

-- name: DropApprovedTools :exec
-- DropApprovedTools drops the approved definitions of tools that others are approved in place of.
DELETE FROM tool_definition AS a
WHERE a.organization_id = @organization_id AND a.server_id = @server_id AND a.status = 'approved' AND a.tool = ANY (@tools::text[]);

-- name: ReviewTools :many
-- ReviewTools decides on the present definitions of tools that wait.
UPDATE tool_definition
SET status = @status, reviewed_by = @reviewed_by, review_reason = @review_reason, reviewed_at = @reviewed_at::timestamptz
WHERE organization_id = @organization_id AND server_id = @server_id AND status = 'pending' AND tool = ANY (@tools::text[])
RETURNING tool;

-- name: PendingTools :many
SELECT tool FROM tool_definition
WHERE organization_id = @organization_id AND server_id = @server_id AND status = 'pending'
ORDER BY tool;

-- name: ClaimToolListing :one
-- ClaimToolListing gives a replica the listing that has been due for the longest time, except listings of some
-- organizations. Claims use Postgres' clock only, since the clocks of replicas differ. A listing that is not settled is
-- due again when its hold ends.
UPDATE tool_listing
SET held_until = now() + make_interval(secs => @hold_seconds::double precision),
    due_at = now() + make_interval(secs => @hold_seconds), lease = lease + 1
WHERE (organization_id, server_id) IN (
    SELECT l.organization_id, l.server_id FROM tool_listing AS l
    WHERE l.due_at <= now() AND l.held_until <= now() AND l.organization_id <> ALL (@full_organizations::text[])
    ORDER BY l.due_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING organization_id, server_id, digest, failures, lease;

-- name: ClaimToolListingOf :one
-- ClaimToolListingOf gives a replica the listing of a server, due or not, unless another one has it.
UPDATE tool_listing
SET held_until = now() + make_interval(secs => @hold_seconds::double precision),
    due_at = now() + make_interval(secs => @hold_seconds), lease = lease + 1
WHERE organization_id = @organization_id AND server_id = @server_id AND held_until <= now()
RETURNING organization_id, server_id, digest, failures, lease;

-- name: SettleToolListing :execrows
-- SettleToolListing writes a listing that succeeded. The next one is due when the server is used, or at once if it has
-- announced a change meanwhile.
UPDATE tool_listing
SET digest = @digest, protocol_version = @protocol_version, listed_at = now(), failures = 0, error_class = '', error_text = '',
    error_at = NULL, due_at = CASE WHEN due_at = held_until THEN 'infinity' ELSE due_at END, held_until = now()
WHERE organization_id = @organization_id AND server_id = @server_id AND lease = @lease;

-- name: FailToolListing :execrows
-- FailToolListing writes a listing that failed; the next one is due after a time, or never without a use.
UPDATE tool_listing
SET failures = failures + 1, error_class = @error_class, error_text = @error_text, error_at = now(), held_until = now(),
    due_at = CASE WHEN @after_seconds::double precision > 0 THEN now() + make_interval(secs => @after_seconds) ELSE 'infinity' END
WHERE organization_id = @organization_id AND server_id = @server_id AND lease = @lease;

-- name: UseToolListings :exec
-- UseToolListings makes listings of servers in use due a time after their last one, unless they are due sooner or under
-- way. A listing that fails keeps its own wait.
UPDATE tool_listing AS l
SET due_at = least(l.due_at, greatest(now(), coalesce(l.listed_at, now()) + make_interval(secs => k.after_seconds)))
FROM (
    SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@server_ids::text[]) AS server_id,
        unnest(@after_seconds::double precision[]) AS after_seconds
) AS k
WHERE l.organization_id = k.organization_id AND l.server_id = k.server_id AND l.held_until <= now()
    AND (l.failures = 0 OR l.due_at = 'infinity');

-- name: HurryToolListing :exec
-- HurryToolListing makes the listing of a server due, a time after its last one at the soonest.
UPDATE tool_listing
SET due_at = least(due_at, greatest(now(), listed_at + make_interval(secs => @after_seconds::double precision)))
WHERE organization_id = @organization_id AND server_id = @server_id AND failures = 0;

-- name: InsertTools :exec
-- InsertTools stores definitions that were not known, to be reviewed.
INSERT INTO tool_definition (organization_id, server_id, tool, digest, definition, status, present, first_seen_at)
SELECT @organization_id::text, @server_id::text, t.tool, t.digest, t.definition, 'pending', true, @first_seen_at::timestamptz
FROM (SELECT unnest(@tools::text[]) AS tool, unnest(@digests::bytea[]) AS digest, unnest(@definitions::text[]) AS definition) AS t;

-- name: MarkToolsPresent :exec
-- MarkToolsPresent marks reviewed definitions that a listing holds again.
UPDATE tool_definition AS d SET present = true, gone_at = NULL
FROM (SELECT unnest(@tools::text[]) AS tool, unnest(@digests::bytea[]) AS digest) AS t
WHERE d.organization_id = @organization_id AND d.server_id = @server_id AND d.tool = t.tool AND d.digest = t.digest;

-- name: MarkToolsGone :exec
-- MarkToolsGone marks reviewed definitions that a listing holds no longer.
UPDATE tool_definition AS d SET present = false, gone_at = @gone_at::timestamptz
FROM (SELECT unnest(@tools::text[]) AS tool, unnest(@digests::bytea[]) AS digest) AS t
WHERE d.organization_id = @organization_id AND d.server_id = @server_id AND d.tool = t.tool AND d.digest = t.digest;

-- name: DropTools :exec
-- DropTools drops definitions of which nothing is to be kept.
DELETE FROM tool_definition AS d
USING (SELECT unnest(@tools::text[]) AS tool, unnest(@digests::bytea[]) AS digest) AS t
WHERE d.organization_id = @organization_id AND d.server_id = @server_id AND d.tool = t.tool AND d.digest = t.digest;
