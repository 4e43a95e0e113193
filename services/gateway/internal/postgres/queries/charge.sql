-- name: ListCharges :many
-- ListCharges returns what the entries of ListEntries bill, in the same order.
SELECT
    id,
    seq,
    txid::text AS position,
    organization_id,
    key_id,
    (
        input_tokens + cache_read_tokens + cache_write_tokens + cache_write_long_tokens + image_input_tokens
        + audio_input_tokens
    )::bigint AS prompt_tokens,
    (output_tokens + reasoning_tokens + image_output_tokens + audio_output_tokens)::bigint AS completion_tokens,
    cost_pico_usd,
    started_at,
    recorded_at
FROM ledger_entry
WHERE (txid, seq) > (cast(@after_txid::text AS xid8), @after_seq::bigint)
    AND txid < least(cast(@before_txid::text AS xid8), pg_snapshot_xmin(pg_current_snapshot()))
    AND (@organization_id::text = '' OR organization_id = @organization_id)
    AND (sqlc.narg('since')::timestamptz IS NULL OR recorded_at >= sqlc.narg('since'))
    AND (sqlc.narg('until')::timestamptz IS NULL OR recorded_at < sqlc.narg('until'))
ORDER BY ledger_entry.txid, ledger_entry.seq
LIMIT @page_size::int;

-- name: RecordedFrom :one
-- RecordedFrom returns the first transaction from one on that has entries, and when it recorded them.
SELECT
    txid::text AS position,
    recorded_at
FROM ledger_entry
WHERE txid >= cast(@txid::text AS xid8)
ORDER BY ledger_entry.txid, ledger_entry.seq
LIMIT 1;

-- name: Horizon :one
-- Horizon returns the oldest transaction in progress, below which every one has ended, and the next one to begin.
SELECT
    pg_snapshot_xmin(pg_current_snapshot())::text AS oldest,
    pg_snapshot_xmax(pg_current_snapshot())::text AS next;
