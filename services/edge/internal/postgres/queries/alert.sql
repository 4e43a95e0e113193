-- name: GetAlertRules :one
SELECT rules FROM alert_rules WHERE organization_id = @organization_id;

-- name: PutAlertRules :exec
INSERT INTO alert_rules (organization_id, rules) VALUES (@organization_id, @rules)
ON CONFLICT (organization_id) DO UPDATE SET rules = excluded.rules, updated_at = now();

-- name: DeleteAlertRules :execrows
DELETE FROM alert_rules WHERE organization_id = @organization_id;

-- name: LockAlertCursor :one
-- LockAlertCursor lets one replica apply rules at a time; the others get no row.
SELECT cursor FROM alert_cursor FOR UPDATE SKIP LOCKED;

-- name: MoveAlertCursor :exec
UPDATE alert_cursor SET cursor = @cursor;

-- name: LastAlert :one
SELECT event_id, sent_at FROM alert_notice
WHERE organization_id = @organization_id AND rule = @rule AND type = @type AND subject = @subject;

-- name: PutAlert :exec
INSERT INTO alert_notice (organization_id, rule, type, subject, event_id, sent_at)
VALUES (@organization_id, @rule, @type, @subject, @event_id, @sent_at)
ON CONFLICT (organization_id, rule, type, subject) DO UPDATE SET event_id = excluded.event_id, sent_at = excluded.sent_at;

-- name: PurgeAlerts :execrows
DELETE FROM alert_notice WHERE sent_at < @before;
