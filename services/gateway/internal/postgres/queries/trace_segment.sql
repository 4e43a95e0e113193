-- name: ListTraceSegments :many
-- ListTraceSegments returns the segments that may hold records of a list, in descending order of last_at, after a
-- position.
SELECT
    s.id, s.last_at, s.body,
    EXISTS (SELECT 1 FROM trace_segment AS c WHERE c.id = s.id AND c.kind = 'contents') AS has_contents
FROM trace_segment AS s
WHERE s.organization_id = @organization_id
    AND s.kind = 'records'
    AND s.expires_at > @now
    AND s.facets @> @facets::bigint[]
    AND (sqlc.narg('since')::timestamptz IS NULL OR s.last_at >= sqlc.narg('since'))
    AND (sqlc.narg('until')::timestamptz IS NULL OR s.first_at <= sqlc.narg('until'))
    AND (s.last_at, s.id) < (@before_at::timestamptz, @before_id::uuid)
ORDER BY s.last_at DESC, s.id DESC
LIMIT @page_size::int;

-- name: FindTraceSegments :many
-- FindTraceSegments is ListTraceSegments for filters with names; it uses the index on names.
WITH named AS MATERIALIZED (
    SELECT id, organization_id, first_at, last_at, expires_at, facets
    FROM trace_segment
    WHERE kind = 'records' AND names @> @names::bigint[]
),
selected AS (
    SELECT id
    FROM named
    WHERE organization_id = @organization_id::text
        AND expires_at > @now::timestamptz
        AND facets @> @facets::bigint[]
        AND (sqlc.narg('since')::timestamptz IS NULL OR last_at >= sqlc.narg('since'))
        AND (sqlc.narg('until')::timestamptz IS NULL OR first_at <= sqlc.narg('until'))
        AND (last_at, id) < (@before_at::timestamptz, @before_id::uuid)
    ORDER BY last_at DESC, id DESC
    LIMIT @page_size::int
)
SELECT
    s.id, s.last_at, s.body,
    EXISTS (SELECT 1 FROM trace_segment AS c WHERE c.id = s.id AND c.kind = 'contents') AS has_contents
FROM selected
JOIN trace_segment AS s ON s.id = selected.id AND s.kind = 'records'
ORDER BY s.last_at DESC, s.id DESC;

-- name: TraceOrganizations :many
-- TraceOrganizations returns the organizations that have records with these names, latest first.
WITH named AS MATERIALIZED (
    SELECT organization_id, last_at, expires_at FROM trace_segment WHERE kind = 'records' AND names @> @names::bigint[]
)
SELECT organization_id
FROM named
WHERE expires_at > @now::timestamptz
GROUP BY organization_id
ORDER BY max(last_at) DESC
LIMIT @page_size::int;

-- name: TraceSegmentContents :many
-- TraceSegmentContents returns pieces of contents; number counts the pieces from 1.
SELECT p.number::int AS number, substring(s.body FROM p.start + 1 FOR p.size)::bytea AS sealed
FROM (
    SELECT unnest(@segments::uuid[]) AS segment, unnest(@starts::int[]) AS start, unnest(@sizes::int[]) AS size,
        generate_subscripts(@sizes::int[], 1) AS number
) AS p
JOIN trace_segment AS s ON s.id = p.segment AND s.kind = 'contents';

-- name: DropTraceSegments :execrows
DELETE FROM trace_segment
WHERE (id, kind) IN (
    SELECT s.id, s.kind FROM trace_segment AS s WHERE s.expires_at <= @now ORDER BY s.expires_at LIMIT @count::int FOR UPDATE SKIP LOCKED
);

-- name: EraseTraceSegments :execrows
-- EraseTraceSegments erases a bounded number of an organization's contents.
DELETE FROM trace_segment
WHERE (id, kind) IN (
    SELECT s.id, s.kind
    FROM trace_segment AS s
    WHERE s.organization_id = @organization_id AND s.kind = 'contents' AND s.first_at <= @until
    LIMIT @count::int
    FOR UPDATE -- A row that another statement deletes meanwhile doesn't count.
);
