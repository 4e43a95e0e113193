-- Returns how many events are not sent, and the age of the oldest.
SELECT count(*) AS waiting, coalesce(now() - min(occurred_at), interval '0') AS oldest
FROM house_event WHERE sent_at IS NULL;
