-- name: GetAlertRules :one
SELECT rules FROM alert_rules WHERE organization_id = @organization_id;

-- name: PutAlertRules :exec
INSERT INTO alert_rules (organization_id, rules) VALUES (@organization_id, @rules)
ON CONFLICT (organization_id) DO UPDATE SET rules = excluded.rules, updated_at = now();

-- name: DeleteAlertRules :execrows
DELETE FROM alert_rules WHERE organization_id = @organization_id;

-- name: LockAlertCursor :one
-- LockAlertCursor lets one replica at a time follow events and apply rules; the others get no row.
SELECT cursor FROM alert_cursor FOR UPDATE SKIP LOCKED;

-- name: MoveAlertCursor :exec
UPDATE alert_cursor SET cursor = @cursor;

-- name: AlertsWait :exec
-- AlertsWait makes organizations due that have rules. An organization without progress begins at its cursor.
INSERT INTO alert_progress (organization_id, cursor, due_at)
SELECT r.organization_id, e.cursor, @now::timestamptz
FROM (SELECT unnest(@organization_ids::text[]) AS organization_id, unnest(@cursors::text[]) AS cursor) AS e
JOIN alert_rules AS r ON r.organization_id = e.organization_id
ON CONFLICT (organization_id) DO UPDATE SET due_at = coalesce(alert_progress.due_at, excluded.due_at);

-- name: NextAlerts :one
-- NextAlerts takes turns by organization, since an organization whose events wait after its turn is due last.
SELECT organization_id, cursor, due_at::timestamptz AS due_at, failures FROM alert_progress
WHERE due_at <= @now::timestamptz ORDER BY due_at, organization_id LIMIT 1;

-- name: SaveAlertProgress :exec
UPDATE alert_progress SET cursor = @cursor, due_at = @due_at, failures = @failures
WHERE organization_id = @organization_id;

-- name: PostponeAlerts :exec
UPDATE alert_progress SET due_at = @due_at::timestamptz, failures = failures + 1
WHERE organization_id = @organization_id;

-- name: LastAlert :one
SELECT event_id, sent_at FROM alert_notice
WHERE organization_id = @organization_id AND rule = @rule AND type = @type AND subject = @subject;

-- name: PutAlert :exec
INSERT INTO alert_notice (organization_id, rule, type, subject, event_id, sent_at)
VALUES (@organization_id, @rule, @type, @subject, @event_id, @sent_at)
ON CONFLICT (organization_id, rule, type, subject) DO UPDATE SET event_id = excluded.event_id, sent_at = excluded.sent_at;

-- name: PurgeAlerts :execrows
DELETE FROM alert_notice WHERE sent_at < @before;
