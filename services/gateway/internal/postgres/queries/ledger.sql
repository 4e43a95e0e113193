-- name: AppendEntries :execrows
-- One statement for a group of entries. One that is there already is left alone:
-- a writer repeats what it doesn't know to be committed.
INSERT INTO ledger_entry (
    id, request_id, organization_id, key_id, service, run_id, operation, requested_provider,
    requested_model, requested_goal, provider, model, credential, credential_fingerprint,
    substituted, attempts, input_tokens, cache_read_tokens, cache_write_tokens, output_tokens,
    reasoning_tokens, images, usage_state, cost_pico_usd, price_version, outcome, started_at,
    ended_at
)
SELECT
    unnest(@id::uuid[]),
    unnest(@request_id::text[]),
    unnest(@organization_id::text[]),
    unnest(@key_id::text[]),
    unnest(@service::text[]),
    unnest(@run_id::text[]),
    unnest(@operation::text[]),
    unnest(@requested_provider::text[]),
    unnest(@requested_model::text[]),
    unnest(@requested_goal::text[]),
    unnest(@provider::text[]),
    unnest(@model::text[]),
    unnest(@credential::text[]),
    unnest(@credential_fingerprint::text[]),
    unnest(@substituted::boolean[]),
    unnest(@attempts::smallint[]),
    unnest(@input_tokens::bigint[]),
    unnest(@cache_read_tokens::bigint[]),
    unnest(@cache_write_tokens::bigint[]),
    unnest(@output_tokens::bigint[]),
    unnest(@reasoning_tokens::bigint[]),
    unnest(@images::bigint[]),
    unnest(@usage_state::text[]),
    unnest(@cost_pico_usd::bigint[]),
    unnest(@price_version::text[]),
    unnest(@outcome::text[]),
    unnest(@started_at::timestamptz[]),
    unnest(@ended_at::timestamptz[])
ON CONFLICT (id) DO NOTHING;
