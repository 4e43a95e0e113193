UPDATE house_event SET sent_at = now() WHERE event_id = ANY (@event_ids::text[]) AND sent_at IS NULL;
