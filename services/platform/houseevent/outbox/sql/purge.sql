DELETE FROM house_event WHERE event_id IN (
    SELECT h.event_id FROM house_event AS h WHERE h.keep_until < now() AND h.sent_at IS NOT NULL LIMIT @count::int FOR UPDATE SKIP LOCKED
);
