-- name: AddEntry :exec
-- AddEntry inserts an entry whose counts are added by other statements of the same transaction. It fails if the entry is already stored.
INSERT INTO ledger_entry (
    id, request_id, organization_id, key_id, key_origin, user_id, tags, service, run_id, operation,
    requested_provider, requested_model, requested_goal, provider, model, credential, credential_fingerprint,
    substituted, cache_hit, attempts, usage_state, cost_pico_usd, price_version, outcome, started_at, ended_at,
    counted, reported_usage, count_metric, input_tokens, cache_read_tokens, cache_write_tokens,
    cache_write_long_tokens, image_input_tokens, audio_input_tokens, output_tokens, reasoning_tokens,
    image_output_tokens, audio_output_tokens, images, characters, audio_seconds, searches
)
VALUES (
    @id, @request_id, @organization_id, @key_id, @key_origin, @user_id, @tags, @service, @run_id, @operation,
    @requested_provider, @requested_model, @requested_goal, @provider, @model, @credential, @credential_fingerprint,
    @substituted, @cache_hit, @attempts, @usage_state, @cost_pico_usd, @price_version, @outcome, @started_at,
    @ended_at, true, @reported_usage, @count_metric, @input_tokens, @cache_read_tokens, @cache_write_tokens,
    @cache_write_long_tokens, @image_input_tokens, @audio_input_tokens, @output_tokens, @reasoning_tokens,
    @image_output_tokens, @audio_output_tokens, @images, @characters, @audio_seconds, @searches
);

-- name: ListEntries :many
-- ListEntries returns the feed in the order of commits. Every transaction below the oldest one in progress has ended,
-- so no row can appear before those already read; an empty filter matches all.
SELECT
    id,
    seq,
    txid::text AS position,
    request_id,
    organization_id,
    key_id,
    key_origin,
    user_id,
    tags,
    service,
    run_id,
    operation,
    requested_provider,
    requested_model,
    requested_goal,
    provider,
    model,
    credential,
    credential_fingerprint,
    substituted,
    cache_hit,
    attempts,
    input_tokens,
    cache_read_tokens,
    cache_write_tokens,
    cache_write_long_tokens,
    image_input_tokens,
    audio_input_tokens,
    output_tokens,
    reasoning_tokens,
    image_output_tokens,
    audio_output_tokens,
    images,
    characters,
    audio_seconds,
    searches,
    usage_state,
    cost_pico_usd,
    price_version,
    outcome,
    started_at,
    ended_at,
    reported_usage,
    recorded_at
FROM ledger_entry
WHERE (txid, seq) > (cast(@after_txid::text AS xid8), @after_seq::bigint)
    AND txid < least(cast(@before_txid::text AS xid8), pg_snapshot_xmin(pg_current_snapshot()))
    AND (@organization_id::text = '' OR organization_id = @organization_id)
    AND (@run_id::text = '' OR run_id = @run_id)
    AND (@provider::text = '' OR provider = @provider)
    AND (@model::text = '' OR model = @model)
    AND (sqlc.narg('since')::timestamptz IS NULL OR recorded_at >= sqlc.narg('since'))
    AND (sqlc.narg('until')::timestamptz IS NULL OR recorded_at < sqlc.narg('until'))
ORDER BY ledger_entry.txid, ledger_entry.seq
LIMIT @page_size::int;

-- name: NewestHidden :one
-- NewestHidden returns the transaction of the newest entry, of every organization or of one, that ListEntries doesn't
-- return yet, because an older transaction is in progress. It looks at so many entries: in a long transaction many are
-- hidden.
SELECT newest.txid::text AS position
FROM (SELECT txid, seq, organization_id FROM ledger_entry
      WHERE ledger_entry.txid >= pg_snapshot_xmin(pg_current_snapshot())
      ORDER BY ledger_entry.txid DESC, ledger_entry.seq DESC LIMIT @most::int) AS newest
WHERE @organization_id::text = '' OR newest.organization_id = @organization_id
ORDER BY newest.txid DESC, newest.seq DESC
LIMIT 1;

-- name: IsListed :one
-- IsListed reports whether ListEntries returns the entries of a transaction.
SELECT (cast(@txid::text AS xid8) < pg_snapshot_xmin(pg_current_snapshot()))::boolean AS listed;
