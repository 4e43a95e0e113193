-- Every transaction below the oldest one in progress has ended, so that no row can appear before those already read.
SELECT
    txid::text::bigint,
    seq,
    organization_id,
    key_id,
    metric,
    minute,
    user_id,
    tags,
    calls
FROM call_count
WHERE
    (txid, seq) > (@txid::bigint::text::xid8, @seq::bigint)
    AND txid < pg_snapshot_xmin(pg_current_snapshot())
ORDER BY call_count.txid, call_count.seq
LIMIT @count::int;
