-- name: ListTraces :many
-- ListTraces returns traces, newest first. An empty filter matches all.
SELECT sqlc.embed(trace), coalesce(c.replayable, false)::boolean AS captured
FROM trace
LEFT JOIN trace_content AS c ON c.id = trace.id AND c.expires_at > @now
WHERE trace.organization_id = @organization_id
    AND trace.expires_at > @now
    AND (@request_id::text = '' OR trace.request_id = @request_id)
    AND (@run_id::text = '' OR trace.run_id = @run_id)
    AND (@operation::text = '' OR trace.operation = @operation)
    AND (@provider::text = '' OR trace.provider = @provider)
    AND (@model::text = '' OR trace.model = @model)
    AND (@status::text = '' OR trace.status = @status)
    AND (sqlc.narg('since')::timestamptz IS NULL OR trace.started_at >= sqlc.narg('since'))
    AND (sqlc.narg('until')::timestamptz IS NULL OR trace.started_at < sqlc.narg('until'))
    AND (sqlc.narg('before_at')::timestamptz IS NULL OR (trace.started_at, trace.id) < (sqlc.narg('before_at')::timestamptz, @before_id::uuid))
ORDER BY trace.started_at DESC, trace.id DESC
LIMIT @page_size::int;

-- name: GetTrace :one
-- GetTrace returns the latest trace with a request id of one organization.
SELECT sqlc.embed(trace), coalesce(c.replayable, false)::boolean AS captured
FROM trace
LEFT JOIN trace_content AS c ON c.id = trace.id AND c.expires_at > @now
WHERE trace.request_id = @request_id
    AND trace.organization_id = @organization_id
    AND trace.expires_at > @now
ORDER BY trace.started_at DESC, trace.id DESC
LIMIT 1;

-- name: LatestTraces :many
-- LatestTraces returns the latest trace with a request id of each organization, or of a single one, newest first.
SELECT sqlc.embed(trace), coalesce(c.replayable, false)::boolean AS captured
FROM trace
LEFT JOIN trace_content AS c ON c.id = trace.id AND c.expires_at > @now
WHERE trace.id IN (
    SELECT DISTINCT ON (t.organization_id) t.id
    FROM trace AS t
    WHERE t.request_id = @request_id
        AND (@organization_id::text = '' OR t.organization_id = @organization_id)
        AND t.expires_at > @now
    ORDER BY t.organization_id, t.started_at DESC, t.id DESC
)
ORDER BY trace.started_at DESC, trace.id DESC
LIMIT @page_size::int;

-- name: TraceContents :many
SELECT id, key_id, sealed, truncated, replayable, captured_at, expires_at
FROM trace_content
WHERE id = ANY(@ids::uuid[]) AND expires_at > @now;

-- name: TraceSizes :many
SELECT id, octet_length(sealed)::int AS size
FROM trace_content
WHERE id = ANY(@ids::uuid[]) AND expires_at > @now;

-- name: TraceReplays :many
-- TraceReplays returns the requests that repeated a request, newest first.
SELECT request_id
FROM trace
WHERE parent_request_id = @request_id AND parent_kind = 'replay' AND organization_id = @organization_id AND expires_at > @now
ORDER BY started_at DESC, id DESC
LIMIT @page_size::int;

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
);
