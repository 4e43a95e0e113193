-- name: TakeRecipients :many
-- TakeRecipients leases due recipients of a channel, the longest due first. A recipient with status `sending` has
-- lost its sender: the outcome of that attempt is unknown. Recipients of organizations to pass over are skipped. A held
-- recipient waits for an earlier message to the same one; a superseded one has a newer update.
WITH due AS (
    SELECT id, status = 'sending' AS lost, extract(epoch FROM now() - due_at) AS late FROM recipient
    WHERE recipient.channel = @channel AND due_at <= now()
        AND (cardinality(@pass_over::text[]) = 0 OR NOT EXISTS (
            SELECT 1 FROM notification AS sent WHERE sent.id = recipient.notification_id AND sent.organization_id = ANY(@pass_over::text[])))
    ORDER BY due_at LIMIT @count FOR UPDATE SKIP LOCKED
)
UPDATE recipient AS r SET status = 'sending', fence = r.fence + 1, due_at = now() + @lease::interval
FROM due, channel_send AS c, notification AS n
WHERE r.id = due.id AND c.notification_id = r.notification_id AND c.channel = r.channel AND n.id = r.notification_id
RETURNING r.id, r.notification_id, n.organization_id, r.sub_id, r.destination, r.lane, r.granted, r.fence, r.attempts,
          (r.doubtful OR EXISTS (SELECT 1 FROM recipient AS p WHERE p.id = r.after_id AND p.doubtful AND p.status = 'failed'))::boolean AS doubtful,
          r.delivery_id, due.lost::boolean AS lost, due.late::double precision AS late, c.work, n.created_at, c.deadline_at,
          n.updates_id,
          (SELECT f.reference FROM channel_send AS f WHERE f.notification_id = n.updates_id AND f.channel = r.channel) AS reference,
          EXISTS (SELECT 1 FROM recipient AS p WHERE p.id = r.after_id AND p.due_at IS NOT NULL)::boolean AS held,
          EXISTS (SELECT 1 FROM notification AS u WHERE u.updates_id = coalesce(n.updates_id, n.id)
              AND u.update_number > coalesce(n.update_number, 0))::boolean AS superseded;

-- name: NextDue :one
-- NextDue returns the seconds until the next recipient of a channel is due; an hour when none is.
SELECT coalesce(extract(epoch FROM (
    SELECT due_at - clock_timestamp() FROM recipient WHERE channel = @channel AND due_at IS NOT NULL ORDER BY due_at LIMIT 1
)), 3600)::double precision;

-- name: LockNotifications :exec
-- LockNotifications locks sends in order, each before its updates, to avoid deadlocks.
SELECT id FROM notification WHERE id = ANY(@ids::uuid[])
ORDER BY coalesce(updates_id, id), coalesce(update_number, 0) FOR NO KEY UPDATE;

-- name: SettleRecipients :many
-- SettleRecipients stores the results whose lease is still held, and returns the ids of their recipients.
UPDATE recipient AS r SET
    status = s.status, due_at = CASE WHEN s.ended THEN NULL ELSE clock_timestamp() + s.delay END, granted = s.granted,
    attempts = s.attempts, doubtful = s.doubtful, delivery_id = coalesce(nullif(s.delivery_id, ''), r.delivery_id)
FROM (
    SELECT unnest(@ids::bigint[]) AS id, unnest(@fences::bigint[]) AS fence, unnest(@statuses::text[]) AS status,
           unnest(@endeds::boolean[]) AS ended, unnest(@delays::interval[]) AS delay, unnest(@granteds::boolean[]) AS granted,
           unnest(@attempt_counts::integer[]) AS attempts, unnest(@doubtfuls::boolean[]) AS doubtful, unnest(@delivery_ids::text[]) AS delivery_id
) AS s
WHERE r.id = s.id AND r.fence = s.fence AND r.status = 'sending'
RETURNING r.id;

-- name: InsertAttempts :exec
INSERT INTO attempt (notification_id, channel, sub_id, number, outcome, response_code, error, detail, retry_after_seconds, started_at, duration_ms)
SELECT a.notification_id, @channel::text, nullif(a.sub_id, '00000000-0000-0000-0000-000000000000'::uuid), a.number, a.outcome, nullif(a.code, 0), nullif(a.error, ''), nullif(a.detail, ''),
       nullif(a.retry_after, 0), a.started_at, a.duration_ms
FROM (
    SELECT unnest(@notification_ids::uuid[]) AS notification_id, unnest(@sub_ids::uuid[]) AS sub_id, unnest(@numbers::integer[]) AS number,
           unnest(@outcomes::text[]) AS outcome, unnest(@codes::integer[]) AS code, unnest(@errors::text[]) AS error,
           unnest(@details::text[]) AS detail, unnest(@retry_afters::double precision[]) AS retry_after, unnest(@started_ats::timestamptz[]) AS started_at,
           unnest(@durations::double precision[]) AS duration_ms
) AS a;

-- name: CountResults :exec
-- CountResults adds results to the sums of their channel, and sets the outcome of the last attempt.
UPDATE channel_send AS c SET
    status = CASE WHEN s.attempts > 0 THEN 'retrying' ELSE c.status END,
    attempts = c.attempts + s.attempts,
    outcome = CASE WHEN s.outcome <> '' THEN s.outcome ELSE c.outcome END,
    last_error = CASE WHEN s.error <> '' THEN s.error ELSE c.last_error END,
    delivered_count = c.delivered_count + s.delivered, failed_count = c.failed_count + s.failed,
    removed_count = c.removed_count + s.removed, superseded_count = c.superseded_count + s.superseded,
    reference = coalesce(c.reference, nullif(s.reference, '')), replaced = c.replaced OR s.replaced,
    truncated = c.truncated OR s.truncated, possibly_duplicated = c.possibly_duplicated OR s.duplicated,
    delivery_id = CASE WHEN s.delivery_id <> '' THEN s.delivery_id ELSE c.delivery_id END
FROM (
    SELECT unnest(@notification_ids::uuid[]) AS notification_id, unnest(@attempt_counts::integer[]) AS attempts, unnest(@outcomes::text[]) AS outcome,
           unnest(@errors::text[]) AS error, unnest(@delivereds::integer[]) AS delivered, unnest(@faileds::integer[]) AS failed,
           unnest(@removeds::integer[]) AS removed, unnest(@truncateds::boolean[]) AS truncated, unnest(@duplicateds::boolean[]) AS duplicated,
           unnest(@delivery_ids::text[]) AS delivery_id, unnest(@supersededs::integer[]) AS superseded, unnest(@refs::text[]) AS reference,
           unnest(@replaceds::boolean[]) AS replaced
) AS s
WHERE c.notification_id = s.notification_id AND c.channel = @channel::text AND c.status NOT IN ('delivered', 'failed');

-- name: TouchNotifications :exec
UPDATE notification SET updated_at = clock_timestamp() WHERE id = ANY(@ids::uuid[]);

-- name: Backlog :many
-- Backlog returns the number of recipients that have not ended, and for how many seconds the one that is due longest
-- has waited.
SELECT channel, count(*)::bigint AS waiting, greatest(extract(epoch FROM now() - min(due_at)), 0)::double precision AS oldest_seconds
FROM recipient WHERE due_at IS NOT NULL GROUP BY channel;
