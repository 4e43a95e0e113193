-- name: LockUseMark :one
-- One replica folds at a time; the others find no row.
SELECT txid::text AS txid, seq FROM credential_use_mark FOR UPDATE SKIP LOCKED;

-- name: FoldUse :one
-- Adds the next rows of the feed up. Every transaction below the oldest one in
-- progress has ended, so that no row can appear before the mark. An answer from
-- the cache used no credential.
WITH fresh AS MATERIALIZED (
    SELECT
        txid, seq, provider, credential_fingerprint, organization_id, service, run_id, credential, cost_pico_usd, started_at, cache_hit
    FROM ledger_entry
    WHERE (txid, seq) > (cast(@after_txid::text AS xid8), @after_seq::bigint)
        AND txid < pg_snapshot_xmin(pg_current_snapshot())
    ORDER BY ledger_entry.txid, ledger_entry.seq
    LIMIT @count::int
),
spread AS (
    SELECT
        provider, credential_fingerprint, organization_id, service, run_id, credential, cost_pico_usd, started_at, s.span,
        date_bin(make_interval(secs => s.span), started_at, '1970-01-01 00:00:00+00') AS bucket
    FROM fresh CROSS JOIN (SELECT unnest(ARRAY[3600, 86400, 2592000]) AS span) AS s
    WHERE NOT cache_hit
),
by_service AS (
    INSERT INTO credential_use AS u (
        provider, span, bucket, credential_fingerprint, organization_id, service, credential,
        calls, cost_pico_usd, first_used_at, last_used_at
    )
    SELECT
        provider, span, bucket, credential_fingerprint, organization_id, service, credential,
        count(*), sum(cost_pico_usd), min(started_at), max(started_at)
    FROM spread
    GROUP BY provider, span, bucket, credential_fingerprint, organization_id, service, credential
    ON CONFLICT (provider, span, bucket, credential_fingerprint, organization_id, service, credential) DO UPDATE SET
        calls = u.calls + excluded.calls,
        cost_pico_usd = u.cost_pico_usd + excluded.cost_pico_usd,
        first_used_at = least(u.first_used_at, excluded.first_used_at),
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
),
by_run AS (
    INSERT INTO credential_use_run AS u (
        provider, span, bucket, credential_fingerprint, organization_id, run_id, calls, first_used_at, last_used_at
    )
    SELECT
        provider, span, bucket, credential_fingerprint, organization_id, run_id, count(*), min(started_at), max(started_at)
    FROM spread
    WHERE run_id <> ''
    GROUP BY provider, span, bucket, credential_fingerprint, organization_id, run_id
    ON CONFLICT (provider, span, bucket, credential_fingerprint, organization_id, run_id) DO UPDATE SET
        calls = u.calls + excluded.calls,
        first_used_at = least(u.first_used_at, excluded.first_used_at),
        last_used_at = greatest(u.last_used_at, excluded.last_used_at)
),
moved AS (
    UPDATE credential_use_mark SET txid = fresh.txid, seq = fresh.seq
    FROM fresh
    WHERE (fresh.txid, fresh.seq) = (SELECT f.txid, f.seq FROM fresh AS f ORDER BY f.txid DESC, f.seq DESC LIMIT 1)
)
SELECT count(*) FROM fresh;

-- name: PlanForValues :exec
-- For the transaction: the window decides how it is best answered, and no answer is
-- worth compiling for. The server takes what lies beyond the mark for a third of
-- the ledger, though it is its last second. The sums of a year fit the memory.
SELECT
    set_config('plan_cache_mode', 'force_custom_plan', true), set_config('jit', 'off', true),
    set_config('enable_seqscan', 'off', true), set_config('work_mem', '64MB', true);

-- name: ExposedServices :many
-- The sums of a window by organization (kind 1), by service (2) and of all (3),
-- the largest first in each kind: whole buckets, the ledger's rows at the edges,
-- and those behind the mark.
WITH used AS (
    SELECT u.organization_id, u.service, u.credential, u.calls, u.cost_pico_usd, u.first_used_at, u.last_used_at
    FROM (
        SELECT unnest(@spans::int[]) AS span, unnest(@span_from::timestamptz[]) AS since, unnest(@span_until::timestamptz[]) AS until
    ) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM credential_use AS c
        WHERE c.provider = @provider AND c.span = w.span AND c.bucket >= w.since AND c.bucket < w.until
            AND (@fingerprint::text = '' OR c.credential_fingerprint = @fingerprint)
        OFFSET 0
    ) AS u
    UNION ALL
    SELECT e.organization_id, e.service, e.credential, 1, e.cost_pico_usd, e.started_at, e.started_at
    FROM (SELECT unnest(@edge_from::timestamptz[]) AS since, unnest(@edge_until::timestamptz[]) AS until) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM ledger_entry AS l
        WHERE l.provider = @provider AND l.started_at >= w.since AND l.started_at < w.until
            AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
            AND NOT l.cache_hit
            AND (l.txid, l.seq) <= (SELECT m.txid, m.seq FROM credential_use_mark AS m)
        OFFSET 0
    ) AS e
    UNION ALL
    SELECT l.organization_id, l.service, l.credential, 1, l.cost_pico_usd, l.started_at, l.started_at
    FROM (
        -- Fenced off and in order, so that it goes by the feed: it is the end of it.
        SELECT * FROM ledger_entry AS e
        WHERE (e.txid, e.seq) > (SELECT m.txid, m.seq FROM credential_use_mark AS m)
        ORDER BY e.txid, e.seq
        OFFSET 0
    ) AS l
    WHERE l.provider = @provider AND l.started_at >= @since::timestamptz AND l.started_at < @until::timestamptz
        AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
        AND NOT l.cache_hit
),
summed AS (
    SELECT
        CASE WHEN grouping(organization_id) = 0 THEN 1 WHEN grouping(service) = 0 THEN 2 ELSE 3 END AS kind,
        coalesce(organization_id, service, '') AS name,
        sum(calls) AS calls, sum(cost_pico_usd) AS cost_pico_usd, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at,
        bool_or(credential = 'fleet') AS fleet, bool_or(credential = 'byok') AS byok
    FROM used
    GROUP BY GROUPING SETS ((organization_id), (service), ())
),
ranked AS (
    SELECT *, row_number() OVER (PARTITION BY kind ORDER BY calls DESC, name) AS place, count(*) OVER (PARTITION BY kind) AS total
    FROM summed
    WHERE calls > 0 AND (kind <> 2 OR name <> '') -- Not every caller says which service it is.
)
SELECT
    kind::int AS kind, name::text AS name, calls::bigint AS calls, (cost_pico_usd / 10000000000)::float8 AS cost_cents,
    first_used_at::timestamptz AS first_used_at, last_used_at::timestamptz AS last_used_at,
    fleet::boolean AS fleet, byok::boolean AS byok, total::bigint AS total
FROM ranked
WHERE place <= @count::int
ORDER BY kind, place;

-- name: ExposedRuns :many
-- The runs of a window, the largest first.
WITH used AS (
    SELECT u.organization_id, u.run_id, u.calls, u.first_used_at, u.last_used_at
    FROM (
        SELECT unnest(@spans::int[]) AS span, unnest(@span_from::timestamptz[]) AS since, unnest(@span_until::timestamptz[]) AS until
    ) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM credential_use_run AS c
        WHERE c.provider = @provider AND c.span = w.span AND c.bucket >= w.since AND c.bucket < w.until
            AND (@fingerprint::text = '' OR c.credential_fingerprint = @fingerprint)
        OFFSET 0
    ) AS u
    UNION ALL
    SELECT e.organization_id, e.run_id, 1, e.started_at, e.started_at
    FROM (SELECT unnest(@edge_from::timestamptz[]) AS since, unnest(@edge_until::timestamptz[]) AS until) AS w
    CROSS JOIN LATERAL (
        SELECT * FROM ledger_entry AS l
        WHERE l.provider = @provider AND l.started_at >= w.since AND l.started_at < w.until
            AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
            AND NOT l.cache_hit AND l.run_id <> ''
            AND (l.txid, l.seq) <= (SELECT m.txid, m.seq FROM credential_use_mark AS m)
        OFFSET 0
    ) AS e
    UNION ALL
    SELECT l.organization_id, l.run_id, 1, l.started_at, l.started_at
    FROM (
        -- Fenced off and in order, so that it goes by the feed: it is the end of it.
        SELECT * FROM ledger_entry AS e
        WHERE (e.txid, e.seq) > (SELECT m.txid, m.seq FROM credential_use_mark AS m)
        ORDER BY e.txid, e.seq
        OFFSET 0
    ) AS l
    WHERE l.provider = @provider AND l.started_at >= @since::timestamptz AND l.started_at < @until::timestamptz
        AND (@fingerprint::text = '' OR l.credential_fingerprint = @fingerprint)
        AND NOT l.cache_hit AND l.run_id <> ''
),
summed AS MATERIALIZED (
    SELECT organization_id, run_id, sum(calls) AS calls, min(first_used_at) AS first_used_at, max(last_used_at) AS last_used_at
    FROM used
    GROUP BY organization_id, run_id
)
SELECT
    organization_id::text AS organization_id, run_id::text AS run_id, calls::bigint AS calls,
    first_used_at::timestamptz AS first_used_at, last_used_at::timestamptz AS last_used_at,
    (SELECT count(*) FROM summed)::bigint AS total
FROM summed
ORDER BY summed.calls DESC, organization_id, run_id
LIMIT @count::int;
