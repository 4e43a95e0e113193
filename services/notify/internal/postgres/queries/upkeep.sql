-- name: DeleteOldKeys :execrows
DELETE FROM idempotency_key WHERE (organization_id, key) IN (
    SELECT k.organization_id, k.key FROM idempotency_key AS k WHERE k.created_at < now() - @age::interval
    ORDER BY k.created_at LIMIT @count FOR UPDATE SKIP LOCKED
);

-- name: DeleteOldLogs :execrows
-- DeleteOldLogs deletes the logs of ended sends, the oldest first, with those of their updates.
DELETE FROM notification WHERE id IN (
    SELECT n.id FROM notification AS n
    WHERE n.created_at < now() - @age::interval
      AND NOT EXISTS (SELECT 1 FROM channel_send AS c WHERE c.notification_id = n.id AND c.status NOT IN ('delivered', 'failed'))
      AND NOT EXISTS (
          SELECT 1 FROM notification AS u JOIN channel_send AS c ON c.notification_id = u.id
          WHERE u.updates_id = n.id AND c.status NOT IN ('delivered', 'failed'))
    ORDER BY n.created_at LIMIT @count FOR UPDATE SKIP LOCKED
);

-- name: DeleteOldEvents :execrows
-- DeleteOldEvents deletes changes of inboxes, the oldest first. Their numbers are not reused: a stream that asks for
-- a deleted one has to list again.
DELETE FROM inbox_event WHERE (organization_id, user_id, seq) IN (
    SELECT e.organization_id, e.user_id, e.seq FROM inbox_event AS e WHERE e.occurred_at < now() - @age::interval
    ORDER BY e.occurred_at LIMIT @count FOR UPDATE SKIP LOCKED
);

-- name: DeleteOldPushHistory :execrows
-- DeleteOldPushHistory deletes the history of ended pushes, the oldest first.
DELETE FROM push_history WHERE id IN (
    SELECT h.id FROM push_history AS h WHERE h.created_at < now() - @age::interval AND h.status IS NOT NULL
    ORDER BY h.created_at LIMIT @count FOR UPDATE SKIP LOCKED
);
