DELETE FROM call_count
WHERE ctid = ANY(ARRAY(
    SELECT old.ctid
    FROM call_count AS old
    WHERE (old.txid, old.seq) <= (@txid::bigint::text::xid8, @seq::bigint) AND old.minute < @before
    ORDER BY old.txid, old.seq
    LIMIT @count::int
));
