-- Leases events that are due, oldest first.
WITH due AS MATERIALIZED (
    SELECT h.event_id FROM house_event AS h
    WHERE h.sent_at IS NULL AND h.due_at <= now()
    ORDER BY h.due_at LIMIT @count::int FOR UPDATE SKIP LOCKED
), taken AS (
    UPDATE house_event AS h SET attempts = h.attempts + 1, due_at = now() + @lease::interval
    FROM due WHERE h.event_id = due.event_id
    RETURNING h.event_id, h.organization_id, h.type, h.subject, h.data, h.occurred_at, h.attempts
)
SELECT event_id, organization_id, type, subject, data, occurred_at, attempts FROM taken ORDER BY occurred_at, event_id;
