-- name: CountDays :exec
-- CountDays counts entries by organization. Every writer locks the rows of these tables in the order of their keys, which
-- rules out deadlocks.
INSERT INTO spend_day AS d (organization_id, day, shard, calls, cost_pico_usd)
SELECT s.organization_id, (now() AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, s.calls, s.cost_pico_usd
FROM (
    SELECT
        unnest(@organization_ids::text[]) AS organization_id,
        unnest(@calls::bigint[]) AS calls,
        unnest(@costs_pico_usd::numeric[]) AS cost_pico_usd
) AS s
ORDER BY s.organization_id
ON CONFLICT (organization_id, day, shard) DO UPDATE SET
    calls = d.calls + excluded.calls,
    cost_pico_usd = d.cost_pico_usd + excluded.cost_pico_usd;

-- name: CountRuns :exec
-- CountRuns counts entries by run.
INSERT INTO spend_run AS r (organization_id, run_id, shard, calls, cost_pico_usd, first_at, last_at)
SELECT s.organization_id, s.run_id, pg_backend_pid() % 8, s.calls, s.cost_pico_usd, s.first_at, s.last_at
FROM (
    SELECT
        unnest(@organization_ids::text[]) AS organization_id,
        unnest(@run_ids::text[]) AS run_id,
        unnest(@calls::bigint[]) AS calls,
        unnest(@costs_pico_usd::numeric[]) AS cost_pico_usd,
        unnest(@first_at::timestamptz[]) AS first_at,
        unnest(@last_at::timestamptz[]) AS last_at
) AS s
ORDER BY s.organization_id, s.run_id
ON CONFLICT (organization_id, run_id, shard) DO UPDATE SET
    calls = r.calls + excluded.calls,
    cost_pico_usd = r.cost_pico_usd + excluded.cost_pico_usd,
    first_at = least(r.first_at, excluded.first_at),
    last_at = greatest(r.last_at, excluded.last_at);

-- name: CountKeys :exec
-- CountKeys counts entries by the key of their budget.
INSERT INTO spend_key AS k (organization_id, key_origin, day, shard, calls, cost_pico_usd)
SELECT s.organization_id, s.key_origin, (now() AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, s.calls, s.cost_pico_usd
FROM (
    SELECT
        unnest(@organization_ids::text[]) AS organization_id,
        unnest(@key_origins::text[]) AS key_origin,
        unnest(@calls::bigint[]) AS calls,
        unnest(@costs_pico_usd::numeric[]) AS cost_pico_usd
) AS s
ORDER BY s.organization_id, s.key_origin
ON CONFLICT (organization_id, key_origin, day, shard) DO UPDATE SET
    calls = k.calls + excluded.calls,
    cost_pico_usd = k.cost_pico_usd + excluded.cost_pico_usd;

-- name: CountCalls :exec
-- CountCalls adds to the counts that customers are billed for.
INSERT INTO call_count (organization_id, key_id, metric, minute, user_id, tags, calls)
SELECT
    unnest(@organization_ids::text[]), unnest(@key_ids::text[]), unnest(@metrics::text[]), unnest(@minutes::timestamptz[]),
    unnest(@user_ids::text[]), unnest(@tags::jsonb[]), unnest(@calls::bigint[]);

-- name: AddSums :exec
-- AddSums adds the sums of the transaction's entries.
INSERT INTO ledger_sum (
    calls, summed, organization_id, provider, model, key_id, key_origin, user_id, tags, service, run_id, credential,
    credential_fingerprint, cache_hit, first_started_at, last_started_at, cost_pico_usd,
    input_tokens, cache_read_tokens, cache_write_tokens, cache_write_long_tokens, image_input_tokens, audio_input_tokens,
    output_tokens, reasoning_tokens, image_output_tokens, audio_output_tokens, images, characters, audio_seconds, searches
)
SELECT
    unnest(@calls::bigint[]), true, unnest(@organization_ids::text[]), unnest(@providers::text[]), unnest(@models::text[]),
    unnest(@key_ids::text[]), unnest(@key_origins::text[]), unnest(@user_ids::text[]), unnest(@tags::jsonb[]),
    unnest(@services::text[]), unnest(@run_ids::text[]), unnest(@credentials::text[]), unnest(@fingerprints::text[]),
    unnest(@cache_hits::boolean[]), unnest(@first_started_at::timestamptz[]), unnest(@last_started_at::timestamptz[]),
    unnest(@costs_pico_usd::numeric[]),
    unnest(@input_tokens::bigint[]), unnest(@cache_read_tokens::bigint[]), unnest(@cache_write_tokens::bigint[]),
    unnest(@cache_write_long_tokens::bigint[]), unnest(@image_input_tokens::bigint[]), unnest(@audio_input_tokens::bigint[]),
    unnest(@output_tokens::bigint[]), unnest(@reasoning_tokens::bigint[]), unnest(@image_output_tokens::bigint[]),
    unnest(@audio_output_tokens::bigint[]), unnest(@images::bigint[]), unnest(@characters::bigint[]),
    unnest(@audio_seconds::bigint[]), unnest(@searches::bigint[]);

-- name: AddUnsummed :exec
-- AddUnsummed records that the transaction's entries have no sums.
INSERT INTO ledger_sum (calls, summed) VALUES (@calls, false);

-- name: SettleEntries :exec
-- SettleEntries ends the reservations of entries that the transaction has inserted.
SELECT ledger_entry_settle(@ids::uuid[]);

-- name: DropSums :exec
-- DropSums deletes a bounded number of sums that all aggregates contain. The sums of the marks' own transactions stay.
DELETE FROM ledger_sum
WHERE ctid = ANY (ARRAY(
    SELECT s.ctid FROM ledger_sum AS s
    WHERE s.txid < least(
        (SELECT m.txid FROM spend_mark AS m), (SELECT m.txid FROM exposure_mark AS m), (SELECT m.txid FROM budget_mark AS m)
    )
    LIMIT 10000
));
