UPDATE house_event AS h SET due_at = now() + p.delay
FROM (SELECT unnest(@event_ids::text[]) AS event_id, unnest(@delays::interval[]) AS delay) AS p
WHERE h.event_id = p.event_id AND h.sent_at IS NULL;
