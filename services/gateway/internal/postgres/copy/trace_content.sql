-- Sealed contents in the order that appendContent writes them.
COPY trace_content (id, key_id, sealed, truncated, replayable, captured_at, expires_at) FROM STDIN (FORMAT binary)
