SELECT
    coalesce(max(txid)::text::bigint, 0),
    pg_snapshot_xmax(pg_current_snapshot())::text::bigint
FROM call_count
WHERE txid >= pg_snapshot_xmin(pg_current_snapshot());
