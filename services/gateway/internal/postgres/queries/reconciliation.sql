-- name: MeteredByModel :many
-- MeteredByModel returns what the fleet's credentials paid for in a period, by the start of the calls. Answers from
-- the cache were paid for when they were created.
SELECT provider, model, count(*) AS calls, sum(cost_pico_usd)::numeric AS cost_pico_usd,
    coalesce(sum(cost_pico_usd) FILTER (WHERE usage_state <> 'reported'), 0)::numeric AS estimated_pico_usd
FROM ledger_entry
WHERE started_at >= @period_start AND started_at < @period_end AND credential = 'fleet' AND NOT cache_hit
    AND provider = ANY(@providers::text[])
GROUP BY provider, model;

-- name: AddReconciliation :execrows
INSERT INTO reconciliation (id, idempotency_key, content_hash, period_start, period_end, status, tolerance_pico_usd,
    amount_pico_usd, metered_pico_usd, invoice_ref, created_at, created_by)
VALUES (@id, @idempotency_key, @content_hash, @period_start, @period_end, @status, @tolerance_pico_usd,
    @amount_pico_usd, @metered_pico_usd, @invoice_ref, @created_at, @created_by)
ON CONFLICT (idempotency_key) DO NOTHING;

-- name: AddReconciliationLines :exec
INSERT INTO reconciliation_line (reconciliation_id, position, provider, model, amount_pico_usd, metered_pico_usd,
    estimated_pico_usd, calls, status)
SELECT
    @reconciliation_id::uuid,
    unnest(@position::integer[]),
    unnest(@provider::text[]),
    unnest(@model::text[]),
    unnest(@amount_pico_usd::numeric[]),
    unnest(@metered_pico_usd::numeric[]),
    unnest(@estimated_pico_usd::numeric[]),
    unnest(@calls::bigint[]),
    unnest(@status::text[]);

-- name: ReconciliationByKey :one
SELECT id, seq, idempotency_key, content_hash, period_start, period_end, status, tolerance_pico_usd, amount_pico_usd,
    metered_pico_usd, invoice_ref, created_at, created_by
FROM reconciliation WHERE idempotency_key = @idempotency_key;

-- name: GetReconciliation :one
SELECT id, seq, idempotency_key, content_hash, period_start, period_end, status, tolerance_pico_usd, amount_pico_usd,
    metered_pico_usd, invoice_ref, created_at, created_by
FROM reconciliation WHERE id = @id;

-- name: ListReconciliations :many
SELECT id, seq, idempotency_key, content_hash, period_start, period_end, status, tolerance_pico_usd, amount_pico_usd,
    metered_pico_usd, invoice_ref, created_at, created_by
FROM reconciliation WHERE @before::bigint = 0 OR seq < @before ORDER BY seq DESC LIMIT @count;

-- name: ReconciliationLines :many
SELECT position, provider, model, amount_pico_usd, metered_pico_usd, estimated_pico_usd, calls, status
FROM reconciliation_line WHERE reconciliation_id = @reconciliation_id ORDER BY position;

-- name: ForgetReconciliations :execrows
-- ForgetReconciliations deletes in bounded batches.
DELETE FROM reconciliation WHERE id IN (SELECT r.id FROM reconciliation AS r WHERE r.created_at < @before ORDER BY r.created_at LIMIT @count);
