-- Records in the order that appendRecord writes them.
COPY trace (
    id, request_id, organization_id, run_id, key_id, service, operation, stream, status, parent_request_id, parent_kind, w3c_trace_id,
    requested_model, requested_provider, requested_goal, provider, model, credential, credential_fingerprint, route, policy_version,
    price_version, data_classification, approval_ref, cache_hit, substituted, billed, prompt_tokens, completion_tokens, cost_pico_usd,
    estimated, error, error_class, http_status, attempts, message_count, tool_count, request_bytes, response_bytes,
    request_digest, response_digest, started_at, first_token_ms, duration_ms, expires_at
) FROM STDIN (FORMAT binary)
