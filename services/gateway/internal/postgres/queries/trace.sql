-- Traces of earlier releases, a row for each request. None are written any more.

-- name: ListTraces :many
-- ListTraces returns the ids of traces, newest first. An empty filter matches all.
SELECT id
FROM trace
WHERE organization_id = @organization_id
    AND expires_at > @now
    AND (@request_id::text = '' OR request_id = @request_id)
    AND (@run_id::text = '' OR run_id = @run_id)
    AND (@operation::text = '' OR operation = @operation)
    AND (@provider::text = '' OR provider = @provider)
    AND (@model::text = '' OR model = @model)
    AND (@status::text = '' OR status = @status)
    AND (sqlc.narg('since')::timestamptz IS NULL OR started_at >= sqlc.narg('since'))
    AND (sqlc.narg('until')::timestamptz IS NULL OR started_at < sqlc.narg('until'))
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (started_at, id) < (sqlc.narg('before_at')::timestamptz, @before_id::uuid))
ORDER BY started_at DESC, id DESC
LIMIT @page_size::int;

-- name: ListTraceReplays :many
-- ListTraceReplays returns the ids of the traces of requests that repeated a request, newest first.
SELECT id
FROM trace
WHERE parent_request_id = @request_id
    AND parent_kind = 'replay'
    AND organization_id = @organization_id
    AND expires_at > @now
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (started_at, id) < (sqlc.narg('before_at')::timestamptz, @before_id::uuid))
ORDER BY started_at DESC, id DESC
LIMIT @page_size::int;

-- name: LatestTraces :many
-- LatestTraces returns the id of the latest trace with a request id of each organization, or of a single one.
SELECT id
FROM (
    SELECT DISTINCT ON (organization_id) id, started_at
    FROM trace
    WHERE request_id = @request_id
        AND (@organization_id::text = '' OR organization_id = @organization_id)
        AND expires_at > @now
    ORDER BY organization_id, started_at DESC, id DESC
) AS latest
ORDER BY started_at DESC, id DESC
LIMIT @page_size::int;

-- name: GetTraces :many
-- GetTraces returns traces, and what is known of their contents.
SELECT
    sqlc.embed(trace), (c.id IS NOT NULL)::boolean AS captured,
    coalesce(c.key_id, '') AS content_key, coalesce(octet_length(c.sealed), 0)::int AS content_size,
    coalesce(c.truncated, false) AS content_truncated, coalesce(c.replayable, false) AS content_replayable,
    coalesce(c.captured_at, trace.started_at) AS content_captured_at, coalesce(c.expires_at, trace.expires_at) AS content_expires_at
FROM trace
LEFT JOIN trace_content AS c ON c.id = trace.id AND c.expires_at > @now
WHERE trace.id = ANY(@ids::uuid[]);

-- name: TraceContents :many
SELECT id, sealed
FROM trace_content
WHERE id = ANY(@ids::uuid[]);

-- name: DropTraceContents :execrows
-- DropTraceContents drops a bounded number of expired contents.
DELETE FROM trace_content
WHERE id IN (SELECT c.id FROM trace_content AS c WHERE c.expires_at <= @now ORDER BY c.expires_at LIMIT @count::int FOR UPDATE SKIP LOCKED);

-- name: DropTraces :one
-- DropTraces drops expired traces with their remaining contents.
WITH gone AS (
    DELETE FROM trace
    WHERE id IN (SELECT t.id FROM trace AS t WHERE t.expires_at <= @now ORDER BY t.expires_at LIMIT @count::int FOR UPDATE SKIP LOCKED)
    RETURNING id
),
contents AS (
    DELETE FROM trace_content AS c USING gone WHERE c.id = gone.id
)
SELECT count(*) FROM gone;

-- name: EraseTraceContents :execrows
-- EraseTraceContents erases a bounded number of an organization's contents.
DELETE FROM trace_content
WHERE id IN (
    SELECT c.id
    FROM trace_content AS c
    JOIN trace AS t ON t.id = c.id
    WHERE t.organization_id = @organization_id AND c.captured_at <= @before
    LIMIT @count::int
    FOR UPDATE OF c -- A row that another statement deletes meanwhile doesn't count.
);
