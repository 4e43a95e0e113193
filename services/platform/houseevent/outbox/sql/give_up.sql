UPDATE house_event SET sent_at = 'infinity' WHERE sent_at IS NULL AND occurred_at < now() - @age::interval;
