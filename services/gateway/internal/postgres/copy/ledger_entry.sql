-- Entries of which none is there already, in the order that appendEntry writes them.
COPY ledger_entry (
    id, request_id, organization_id, key_id, service, run_id, operation, requested_provider,
    requested_model, requested_goal, provider, model, credential, credential_fingerprint,
    substituted, cache_hit, attempts, input_tokens, cache_read_tokens, cache_write_tokens,
    cache_write_long_tokens, image_input_tokens, audio_input_tokens, output_tokens,
    reasoning_tokens, audio_output_tokens, image_output_tokens, images, usage_state,
    cost_pico_usd, price_version, outcome, started_at, ended_at
) FROM STDIN (FORMAT binary)
