-- name: TakeExportLease :one
-- TakeExportLease takes or renews a lease; it returns no row while another replica holds it.
INSERT INTO export_lease AS l (name, holder, fence, expires_at) VALUES (@name, @holder, 1, now() + make_interval(secs => @seconds))
ON CONFLICT (name) DO UPDATE SET holder = excluded.holder, expires_at = excluded.expires_at,
    fence = l.fence + CASE WHEN l.holder = excluded.holder THEN 0 ELSE 1 END
WHERE l.holder = excluded.holder OR l.expires_at < now()
RETURNING fence;

-- name: HoldExportLease :one
-- HoldExportLease keeps the fence as it is until the transaction ends.
SELECT EXISTS (SELECT 1 FROM export_lease AS l WHERE l.name = @name AND l.fence = @fence FOR SHARE)::boolean AS held;

-- name: CollectCounts :execrows
-- CollectCounts adds the growth of the hours in [since, before). Ids are given while the lease is locked, so that they
-- become visible in order.
INSERT INTO export_count (organization_id, metric, hour, counted_before, count, collected_at)
SELECT c.organization_id, c.metric, c.hour, coalesce(k.count, 0), c.count - coalesce(k.count, 0), @now
FROM (
    SELECT u.organization_id, u.metric, date_trunc('hour', u.minute, 'UTC')::timestamptz AS hour, sum(u.count)::bigint AS count
    FROM usage_counters AS u WHERE u.minute >= @since AND u.minute < @before
    GROUP BY 1, 2, 3
) AS c LEFT JOIN (
    SELECT e.organization_id, e.metric, e.hour, sum(e.count)::bigint AS count
    FROM export_count AS e WHERE e.hour >= @since AND e.hour < @before
    GROUP BY 1, 2, 3
) AS k USING (organization_id, metric, hour)
WHERE c.count > coalesce(k.count, 0)
ORDER BY c.hour, c.organization_id, c.metric;

-- name: ListExportCounts :many
SELECT e.id, e.organization_id, e.metric, e.hour, e.counted_before, e.count, e.collected_at
FROM export_count AS e
WHERE e.id > @after AND e.hour >= @since AND (sqlc.narg(until)::timestamptz IS NULL OR e.hour < sqlc.narg(until))
ORDER BY e.id
LIMIT @page;

-- name: DropExportCounts :execrows
DELETE FROM export_count AS e
WHERE e.id IN (SELECT o.id FROM export_count AS o WHERE o.hour < @before LIMIT @page FOR UPDATE SKIP LOCKED);

-- name: OpenExportCursor :exec
INSERT INTO export_cursor (destination, source, since, position) VALUES (@destination, @source, @since, '')
ON CONFLICT (destination, source) WHERE until IS NULL DO NOTHING;

-- name: AddExportBackfill :one
INSERT INTO export_cursor (destination, source, since, until, only_refused, position)
SELECT @destination, @source, @since, @until::timestamptz, @only_refused, ''
WHERE (
    SELECT count(*) FROM export_cursor AS c
    WHERE c.destination = @destination AND c.source = @source AND c.until IS NOT NULL AND c.finished_at IS NULL
) < @most::bigint
RETURNING id;

-- name: ListExportCursors :many
SELECT c.id, c.destination, c.source, c.since, c.until, c.only_refused, c.position, c.settled, c.unsure_since, c.sent, c.refused,
    c.failure, c.failing_since, c.updated_at, c.finished_at
FROM export_cursor AS c
WHERE c.destination = @destination AND (@all_of_them::boolean OR c.finished_at IS NULL)
ORDER BY c.until IS NOT NULL, c.id DESC
LIMIT @page;

-- name: AdvanceExportCursor :one
-- AdvanceExportCursor moves a cursor past a page and keeps the event that the destination took last; sent_at is null if
-- it took none. It does nothing if the lease has another fence, and reports whether the fence was right. The fence can't
-- change until the transaction ends.
WITH held AS (
    SELECT FROM export_lease AS l WHERE l.name = @lease AND l.fence = @fence FOR SHARE
), advanced AS (
    UPDATE export_cursor AS c SET position = @position, settled = '{}', unsure_since = NULL, sent = c.sent + @sent,
        refused = c.refused + @refused, failure = '', failing_since = NULL, updated_at = now(),
        finished_at = CASE WHEN @finished::boolean AND c.until IS NOT NULL THEN now() END
    WHERE c.id = @id AND EXISTS (SELECT FROM held)
), kept AS (
    INSERT INTO export_last_taken AS t (destination, account, sent_at, identifier, source, organization_id, metric, customer, name, value, occurred_at)
    SELECT @destination, @account, sqlc.narg(sent_at)::timestamptz, @identifier, @source, @organization_id, @metric, @customer, @name, @value,
        @occurred_at::timestamptz
    WHERE sqlc.narg(sent_at)::timestamptz IS NOT NULL AND EXISTS (SELECT FROM held)
    ON CONFLICT (destination) DO UPDATE SET account = excluded.account, sent_at = excluded.sent_at, identifier = excluded.identifier,
        source = excluded.source, organization_id = excluded.organization_id, metric = excluded.metric, customer = excluded.customer,
        name = excluded.name, value = excluded.value, occurred_at = excluded.occurred_at
)
SELECT EXISTS (SELECT FROM held) AS held;

-- name: BeginExportPage :one
-- BeginExportPage stores the time since which a page's events may have been taken, unless one is stored. It does nothing if the lease has another fence,
-- and reports whether the fence was right.
WITH held AS (
    SELECT FROM export_lease AS l WHERE l.name = @lease AND l.fence = @fence FOR SHARE
), begun AS (
    UPDATE export_cursor AS c SET unsure_since = coalesce(c.unsure_since, @at::timestamptz)
    WHERE c.id = @id AND EXISTS (SELECT FROM held)
)
SELECT EXISTS (SELECT FROM held) AS held;

-- name: FailExportCursor :exec
UPDATE export_cursor AS c SET settled = c.settled || @settled::text[], unsure_since = sqlc.narg(unsure_since),
    sent = c.sent + @sent, refused = c.refused + @refused, failure = @failure, failing_since = coalesce(c.failing_since, now()),
    updated_at = now()
WHERE c.id = @id;

-- name: KeepLastTaken :exec
INSERT INTO export_last_taken AS l (destination, account, sent_at, identifier, source, organization_id, metric, customer, name, value, occurred_at)
VALUES (@destination, @account, @sent_at, @identifier, @source, @organization_id, @metric, @customer, @name, @value, @occurred_at)
ON CONFLICT (destination) DO UPDATE SET account = excluded.account, sent_at = excluded.sent_at, identifier = excluded.identifier,
    source = excluded.source, organization_id = excluded.organization_id, metric = excluded.metric, customer = excluded.customer,
    name = excluded.name, value = excluded.value, occurred_at = excluded.occurred_at;

-- name: GetLastTaken :one
SELECT l.account, l.sent_at, l.identifier, l.source, l.organization_id, l.metric, l.customer, l.name, l.value, l.occurred_at
FROM export_last_taken AS l WHERE l.destination = @destination;

-- name: AddExportRefusals :exec
INSERT INTO export_refusal AS r (destination, identifier, source, organization_id, metric, value, occurred_at, reason)
SELECT @destination, unnest(@identifiers::text[]), @source, unnest(@organizations::text[]), unnest(@metrics::text[]),
    unnest(@amounts::text[]), unnest(@moments::timestamptz[]), unnest(@reasons::text[])
ON CONFLICT (destination, identifier) DO UPDATE SET reason = excluded.reason, refused_at = excluded.refused_at;

-- name: DropAcceptedRefusals :exec
-- DropAcceptedRefusals removes refusals of events that a back-fill has delivered.
DELETE FROM export_refusal AS r WHERE r.destination = @destination AND r.identifier = ANY(@identifiers::text[]);

-- name: FindExportRefusals :many
SELECT r.identifier FROM export_refusal AS r WHERE r.destination = @destination AND r.identifier = ANY(@identifiers::text[]);

-- name: ListExportRefusals :many
SELECT r.identifier, r.source, r.organization_id, r.metric, r.value, r.occurred_at, r.reason, r.refused_at
FROM export_refusal AS r
WHERE r.destination = @destination AND r.identifier > @after
ORDER BY r.identifier
LIMIT @page;

-- name: DropExportRefusals :execrows
DELETE FROM export_refusal AS r
WHERE (r.destination, r.identifier) IN (
    SELECT o.destination, o.identifier FROM export_refusal AS o WHERE o.refused_at < @before LIMIT @page FOR UPDATE SKIP LOCKED
);

-- name: DropExportBackfills :execrows
DELETE FROM export_cursor AS c
WHERE c.id IN (SELECT o.id FROM export_cursor AS o WHERE o.finished_at < @before::timestamptz LIMIT @page FOR UPDATE SKIP LOCKED);

-- name: ExportWaiting :one
-- ExportWaiting returns how many growths of counts a destination has not got yet, for how many seconds the oldest of them
-- has waited, or the tries of a source have failed if that is longer, and how many refused events are kept.
WITH live AS (
    SELECT c.since, coalesce(nullif(c.position, '')::bigint, 0) AS last
    FROM export_cursor AS c WHERE c.destination = @destination AND c.until IS NULL AND c.source = 'counts'
), rows AS (
    SELECT count(*) AS waiting, min(e.collected_at) AS since
    FROM live AS l JOIN export_count AS e ON e.id > l.last AND e.hour >= l.since
), failing AS (
    SELECT min(c.failing_since) AS since FROM export_cursor AS c WHERE c.destination = @destination AND c.finished_at IS NULL
)
SELECT r.waiting, greatest(coalesce(extract(epoch FROM now() - least(r.since, f.since)), 0), 0)::double precision AS oldest,
    (SELECT count(*) FROM export_refusal AS x WHERE x.destination = @destination) AS refused
FROM rows AS r, failing AS f;
