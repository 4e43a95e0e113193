-- name: LockUseMark :one
-- LockUseMark lets one replica aggregate at a time; the others get no row.
SELECT txid::text AS txid, seq FROM exposure_mark FOR UPDATE SKIP LOCKED;

-- name: FoldUse :one
-- FoldUse aggregates the next transactions of the feed, from their sums (see ledger_summed). An answer from the cache
-- used no credential.
WITH next AS MATERIALIZED (
    SELECT ledger_sum_until(cast(@after_txid::text AS xid8), @count::int) AS txid
),
fresh AS MATERIALIZED (
    SELECT
        calls, provider, credential_fingerprint, organization_id, service, run_id, credential, cost_pico_usd, cache_hit,
        first_started_at, last_started_at
    FROM ledger_summed AS s
    WHERE s.txid > cast(@after_txid AS xid8) AND s.txid <= (SELECT n.txid FROM next AS n)
    UNION ALL
    -- The rest of a transaction that the previous release read in part.
    SELECT
        1::bigint, provider, credential_fingerprint, organization_id, service, run_id, credential, cost_pico_usd::numeric,
        cache_hit, started_at, started_at
    FROM ledger_entry AS e
    WHERE e.txid = cast(@after_txid AS xid8) AND e.seq > @after_seq::bigint
),
-- Equal calls of one hour are one row from here on: every span is a multiple of an hour.
hourly AS MATERIALIZED (
    SELECT
        provider, credential_fingerprint, organization_id, service, run_id, credential,
        date_bin(make_interval(hours => 1), first_started_at, '1970-01-01 00:00:00+00') AS hour,
        sum(calls)::bigint AS calls, sum(cost_pico_usd) AS cost_pico_usd,
        min(first_started_at) AS first_used_at, max(last_started_at) AS last_used_at
    FROM fresh
    WHERE NOT cache_hit
    GROUP BY provider, credential_fingerprint, organization_id, service, run_id, credential, hour
),
-- One row for the credential, and one for its provider.
used AS MATERIALIZED (
    SELECT
        provider, CASE WHEN scope.whole THEN '' ELSE credential_fingerprint END AS credential_fingerprint,
        organization_id, service, run_id, credential, hour, calls, cost_pico_usd, first_used_at, last_used_at
    FROM hourly CROSS JOIN (SELECT unnest(ARRAY[true, false]) AS whole) AS scope
    WHERE scope.whole OR credential_fingerprint <> ''
),
spread AS MATERIALIZED (
    SELECT used.*, s.span, date_bin(make_interval(secs => s.span), hour, '1970-01-01 00:00:00+00') AS bucket
    FROM used CROSS JOIN (SELECT unnest(ARRAY[3600, 86400, 432000, 2592000]) AS span) AS s
),
by_name AS (
    INSERT INTO exposure_use AS u (
        provider, credential_fingerprint, span, bucket, kind, name, fleet, byok, calls, cost_pico_usd, first_used_at, last_used_at
    )
    SELECT
        provider, credential_fingerprint, span, bucket, kind, CASE kind WHEN 1 THEN organization_id ELSE service END AS name,
        bool_or(credential = 'fleet'), bool_or(credential = 'byok'),
        sum(calls), sum(CASE kind WHEN 2 THEN cost_pico_usd END), min(first_used_at), max(last_used_at)
    FROM spread CROSS JOIN (SELECT unnest(ARRAY[1, 2]) AS kind) AS k
    GROUP BY provider, credential_fingerprint, span, bucket, kind, name
    ON CONFLICT (provider, credential_fingerprint, span, bucket, kind, name) DO UPDATE SET
        fleet = u.fleet OR excluded.fleet,
        byok = u.byok OR excluded.byok,
        calls = u.calls + excluded.calls,
        cost_pico_usd = u.cost_pico_usd + excluded.cost_pico_usd,
        first_used_at = least(u.first_used_at, excluded.first_used_at),
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
),
of_runs AS MATERIALIZED (
    SELECT
        provider, credential_fingerprint, organization_id, run_id,
        sum(calls) AS calls, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at
    FROM used
    WHERE run_id <> ''
    GROUP BY provider, credential_fingerprint, organization_id, run_id
),
-- Runs that begin with these rows, or earlier than known before; the latter leave the bucket in which they were
-- counted.
begun AS MATERIALIZED (
    SELECT o.provider, o.credential_fingerprint, o.first_used_at, r.first_used_at AS formerly
    FROM of_runs AS o
    LEFT JOIN exposure_run AS r ON r.provider = o.provider AND r.credential_fingerprint = o.credential_fingerprint
        AND r.organization_id = o.organization_id AND r.run_id = o.run_id
    WHERE r.run_id IS NULL OR o.first_used_at < r.first_used_at
),
by_begin AS (
    INSERT INTO exposure_run_count AS u (provider, credential_fingerprint, span, bucket, runs)
    SELECT
        provider, credential_fingerprint, s.span,
        date_bin(make_interval(secs => s.span), b.first_used_at, '1970-01-01 00:00:00+00') AS bucket, sum(b.runs)
    FROM (
        SELECT provider, credential_fingerprint, first_used_at, 1 AS runs FROM begun
        UNION ALL
        SELECT provider, credential_fingerprint, formerly, -1 FROM begun WHERE formerly IS NOT NULL
    ) AS b
    CROSS JOIN (SELECT unnest(ARRAY[3600, 86400, 432000, 2592000]) AS span) AS s
    GROUP BY provider, credential_fingerprint, s.span, bucket
    ON CONFLICT (provider, credential_fingerprint, span, bucket) DO UPDATE SET runs = u.runs + excluded.runs
),
by_run AS (
    INSERT INTO exposure_run AS u (provider, credential_fingerprint, organization_id, run_id, calls, first_used_at, last_used_at)
    SELECT provider, credential_fingerprint, organization_id, run_id, calls, first_used_at, last_used_at
    FROM of_runs
    ON CONFLICT (provider, credential_fingerprint, organization_id, run_id) DO UPDATE SET
        calls = u.calls + excluded.calls,
        first_used_at = least(u.first_used_at, excluded.first_used_at),
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
),
by_run_bucket AS (
    INSERT INTO exposure_run_use AS u (
        provider, credential_fingerprint, organization_id, run_id, span, bucket, calls, first_used_at, last_used_at
    )
    SELECT
        provider, credential_fingerprint, organization_id, run_id, span, bucket, sum(calls), min(first_used_at), max(last_used_at)
    FROM spread
    WHERE run_id <> ''
    GROUP BY provider, credential_fingerprint, organization_id, run_id, span, bucket
    ON CONFLICT (provider, credential_fingerprint, organization_id, run_id, span, bucket) DO UPDATE SET
        calls = u.calls + excluded.calls,
        first_used_at = least(u.first_used_at, excluded.first_used_at),
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
),
moved AS (
    -- The highest seq marks the transaction as fully read.
    UPDATE exposure_mark AS m SET txid = coalesce(next.txid, m.txid), seq = 9223372036854775807
    FROM next
    WHERE next.txid IS NOT NULL OR EXISTS (SELECT FROM fresh)
)
SELECT coalesce(sum(calls), 0)::bigint AS calls FROM fresh;

-- name: PlanForValues :exec
-- PlanForValues applies to the transaction: the best plan depends on the window, and compiling it does not pay. The
-- server estimates the rows beyond the mark at a third of the ledger, although they are its last second. The sums of
-- a year fit into memory.
SELECT
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('enable_sort', 'off', true),
    set_config('max_parallel_workers_per_gather', '0', true), set_config('work_mem', '64MB', true);

-- name: ExposedNames :many
-- ExposedNames returns the sums of a window by organization (kind 1), by service (2) and of all (3), the largest
-- first in each kind. They consist of whole buckets, the ledger's rows at the edges, and the rows beyond the mark.
WITH used AS (
    SELECT u.kind, u.name, u.fleet, u.byok, u.calls, u.cost_pico_usd, u.first_used_at, u.last_used_at
    FROM (
        SELECT unnest(@spans::int[]) AS span, unnest(@span_from::timestamptz[]) AS since, unnest(@span_until::timestamptz[]) AS until
    ) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM exposure_use AS c
        WHERE c.provider = @provider AND c.credential_fingerprint = @fingerprint
            AND c.span = w.span AND c.bucket >= w.since AND c.bucket < w.until
        OFFSET 0
    ) AS u
    UNION ALL
    SELECT
        k.kind, CASE k.kind WHEN 1 THEN l.organization_id ELSE l.service END, l.credential = 'fleet', l.credential = 'byok', 1,
        CASE k.kind WHEN 2 THEN l.cost_pico_usd END, l.started_at, l.started_at
    FROM (
        SELECT e.organization_id, e.service, e.credential, e.credential_fingerprint, e.cost_pico_usd, e.started_at, e.cache_hit
        FROM (SELECT unnest(@edge_from::timestamptz[]) AS since, unnest(@edge_until::timestamptz[]) AS until) AS w
        CROSS JOIN LATERAL (
            SELECT * FROM ledger_entry AS l
            WHERE l.provider = @provider AND l.started_at >= w.since AND l.started_at < w.until
                AND (l.txid, l.seq) <= (SELECT m.txid, m.seq FROM exposure_mark AS m)
            OFFSET 0
        ) AS e
        UNION ALL
        -- A subquery in feed order, so that the plan uses the feed's index, of which this is the end.
        SELECT tail.organization_id, tail.service, tail.credential, tail.credential_fingerprint, tail.cost_pico_usd, tail.started_at, tail.cache_hit
        FROM (
            SELECT * FROM ledger_entry AS e
            WHERE (e.txid, e.seq) > (SELECT m.txid, m.seq FROM exposure_mark AS m)
            ORDER BY e.txid, e.seq
            OFFSET 0
        ) AS tail
        WHERE tail.provider = @provider AND tail.started_at >= @since::timestamptz AND tail.started_at < @until::timestamptz
    ) AS l
    CROSS JOIN (SELECT unnest(ARRAY[1, 2]) AS kind) AS k
    WHERE NOT l.cache_hit AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
),
summed AS MATERIALIZED (
    SELECT
        kind, name, bool_or(fleet) AS fleet, bool_or(byok) AS byok,
        sum(calls) AS calls, sum(cost_pico_usd) AS cost_pico_usd, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at
    FROM used
    GROUP BY kind, name
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY kind ORDER BY calls DESC, name) AS place, count(*) OVER (PARTITION BY kind) AS total
    FROM summed
    WHERE kind <> 2 OR name <> '' -- service is empty for callers that send no name
)
SELECT
    kind::int AS kind, name::text AS name, calls::bigint AS calls, 0::float8 AS cost_cents,
    first_used_at::timestamptz AS first_used_at, last_used_at::timestamptz AS last_used_at,
    fleet::boolean AS fleet, byok::boolean AS byok, total::bigint AS total
FROM ranked
WHERE place <= @count::int
UNION ALL
SELECT 3, '', sum(calls)::bigint, (sum(cost_pico_usd) / 10000000000)::float8, min(first_used_at), max(last_used_at), bool_or(fleet), bool_or(byok), 1
FROM summed
WHERE kind = 2
HAVING count(*) > 0
ORDER BY kind, calls DESC, name;

-- name: ExposedRuns :many
-- ExposedRuns returns the runs of a window, the largest first. A run within the window counts with its own sum; a run
-- across an edge, with its buckets and the ledger's rows at the edge; each with its rows beyond the mark.
WITH cut AS MATERIALIZED (
    SELECT DISTINCT r.organization_id, r.run_id, r.first_used_at, r.last_used_at
    FROM (
        SELECT k.lasting, b.border, CASE k.lasting WHEN 4 THEN '-infinity' ELSE b.border - make_interval(secs => k.seconds) END AS oldest
        FROM (SELECT unnest(ARRAY[0, 1, 2, 3, 4]) AS lasting, unnest(ARRAY[3600, 86400, 432000, 2592000, 0]) AS seconds) AS k
        CROSS JOIN (SELECT unnest(ARRAY[@since::timestamptz, @until::timestamptz]) AS border) AS b
    ) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM exposure_run AS e
        WHERE e.provider = @provider AND e.credential_fingerprint = @fingerprint AND e.lasting = w.lasting
            AND e.first_used_at > w.oldest AND e.first_used_at < w.border AND e.last_used_at >= w.border
        OFFSET 0
    ) AS r
),
parts AS (
    SELECT u.organization_id, u.run_id, u.calls, u.first_used_at, u.last_used_at
    FROM cut
    CROSS JOIN (
        SELECT unnest(@spans::int[]) AS span, unnest(@span_from::timestamptz[]) AS since, unnest(@span_until::timestamptz[]) AS until
    ) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM exposure_run_use AS c
        WHERE c.provider = @provider AND c.credential_fingerprint = @fingerprint
            AND c.organization_id = cut.organization_id AND c.run_id = cut.run_id
            AND c.span = w.span AND c.bucket >= w.since AND c.bucket < w.until
        OFFSET 0
    ) AS u
    UNION ALL
    SELECT e.organization_id, e.run_id, 1, e.started_at, e.started_at
    FROM (SELECT unnest(@edge_from::timestamptz[]) AS since, unnest(@edge_until::timestamptz[]) AS until) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM ledger_entry AS l
        WHERE l.provider = @provider AND l.started_at >= w.since AND l.started_at < w.until
            AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
            AND NOT l.cache_hit
            AND (l.txid, l.seq) <= (SELECT m.txid, m.seq FROM exposure_mark AS m)
        OFFSET 0
    ) AS e
    WHERE (e.organization_id, e.run_id) IN (SELECT cut.organization_id, cut.run_id FROM cut)
    UNION ALL
    SELECT l.organization_id, l.run_id, 1, l.started_at, l.started_at
    FROM (
        -- A subquery in feed order, so that the plan uses the feed's index, of which this is the end.
        SELECT * FROM ledger_entry AS e
        WHERE (e.txid, e.seq) > (SELECT m.txid, m.seq FROM exposure_mark AS m)
        ORDER BY e.txid, e.seq
        OFFSET 0
    ) AS l
    WHERE l.provider = @provider AND l.started_at >= @since::timestamptz AND l.started_at < @until::timestamptz
        AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
        AND NOT l.cache_hit AND l.run_id <> ''
),
added AS MATERIALIZED (
    SELECT organization_id, run_id, sum(calls) AS calls, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at
    FROM parts
    GROUP BY organization_id, run_id
),
-- Runs with parts, plus their own sum if they lie within the window.
composed AS MATERIALIZED (
    SELECT
        a.organization_id, a.run_id, a.calls + coalesce(r.calls, 0) AS calls, r.run_id IS NOT NULL AS within,
        least(a.first_used_at, r.first_used_at) AS first_used_at, greatest(a.last_used_at, r.last_used_at) AS last_used_at
    FROM added AS a
    LEFT JOIN LATERAL (
        SELECT * FROM exposure_run AS e
        WHERE e.provider = @provider AND e.credential_fingerprint = @fingerprint
            AND e.organization_id = a.organization_id AND e.run_id = a.run_id
        OFFSET 0
    ) AS r ON r.first_used_at >= @since::timestamptz AND r.last_used_at < @until::timestamptz
),
-- The largest runs within the window: another one can be among the largest only if it has parts.
largest AS (
    SELECT r.organization_id, r.run_id, r.calls, r.first_used_at, r.last_used_at
    FROM exposure_run AS r
    WHERE r.provider = @provider AND r.credential_fingerprint = @fingerprint
        AND r.first_used_at >= @since::timestamptz AND r.last_used_at < @until::timestamptz
    ORDER BY r.calls DESC, r.organization_id, r.run_id
    LIMIT @count::int
),
-- Runs that begin in the window, without those that extend beyond it, and with those that have parts in it.
counted AS (
    SELECT
        (SELECT coalesce(sum(c.runs), 0)
            FROM (
                SELECT unnest(@spans::int[]) AS span, unnest(@span_from::timestamptz[]) AS since, unnest(@span_until::timestamptz[]) AS until
            ) AS w
            JOIN exposure_run_count AS c ON c.provider = @provider AND c.credential_fingerprint = @fingerprint
                AND c.span = w.span AND c.bucket >= w.since AND c.bucket < w.until)
        + (SELECT count(*)
            FROM (SELECT unnest(@edge_from::timestamptz[]) AS since, unnest(@edge_until::timestamptz[]) AS until) AS w
            JOIN exposure_run AS r ON r.provider = @provider AND r.credential_fingerprint = @fingerprint
                AND r.lasting = ANY(ARRAY[0, 1, 2, 3, 4]) AND r.first_used_at >= w.since AND r.first_used_at < w.until)
        - (SELECT count(*) FROM cut WHERE cut.first_used_at >= @since::timestamptz AND cut.last_used_at >= @until::timestamptz)
        + (SELECT count(*) FROM composed WHERE NOT composed.within) AS total
),
found AS (
    SELECT organization_id, run_id, calls, first_used_at, last_used_at FROM composed
    UNION ALL
    SELECT organization_id, run_id, calls, first_used_at, last_used_at FROM largest
    WHERE (largest.organization_id, largest.run_id) NOT IN (SELECT composed.organization_id, composed.run_id FROM composed)
)
SELECT
    organization_id::text AS organization_id, run_id::text AS run_id, calls::bigint AS calls,
    first_used_at::timestamptz AS first_used_at, last_used_at::timestamptz AS last_used_at,
    counted.total::bigint AS total
FROM found CROSS JOIN counted
ORDER BY found.calls DESC, organization_id, run_id
LIMIT @count::int;
