SELECT @txid::bigint::text::xid8 < pg_snapshot_xmin(pg_current_snapshot());
