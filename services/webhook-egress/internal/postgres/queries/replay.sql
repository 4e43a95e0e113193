-- name: AddReplay :one
INSERT INTO replays (id, organization_id, owner_id, filter, status, matched, max_attempts, deadline_at, rate_per_second,
                     created_at, updated_at)
VALUES (@id, @organization_id, NULLIF(@owner_id::text, ''), (@filter::text)::jsonb, 'queued', @matched, NULLIF(@max_attempts::integer, 0),
        NULLIF(@deadline::timestamptz, 'epoch'), @rate_per_second, now(), now())
RETURNING id, organization_id, owner_id, filter, status, matched, replayed, skipped, cursor, max_attempts, deadline_at,
          rate_per_second, error, due_at, leased_by, lease_seq, created_at, updated_at, finished_at;

-- name: GetReplay :one
SELECT id, organization_id, owner_id, filter, status, matched, replayed, skipped, cursor, max_attempts, deadline_at,
       rate_per_second, error, due_at, leased_by, lease_seq, created_at, updated_at, finished_at
FROM replays
WHERE id = @id AND organization_id = @organization_id AND (@owner_id::text = '' OR owner_id = @owner_id::text);

-- name: ListReplays :many
SELECT id, organization_id, owner_id, filter, status, matched, replayed, skipped, cursor, max_attempts, deadline_at,
       rate_per_second, error, due_at, leased_by, lease_seq, created_at, updated_at, finished_at
FROM replays
WHERE organization_id = @organization_id AND id < @before AND (@owner_id::text = '' OR owner_id = @owner_id::text)
ORDER BY id DESC
LIMIT @page;

-- name: CancelReplay :execrows
UPDATE replays SET status = 'cancelled', updated_at = now(), finished_at = now()
WHERE id = @id AND finished_at IS NULL;

-- name: TakeReplay :many
-- TakeReplay returns the job that has waited longest. The row lock is the lease: a page is one transaction, so a
-- replica that dies has done nothing of it.
SELECT id, organization_id, owner_id, filter, status, matched, replayed, skipped, cursor, max_attempts, deadline_at,
       rate_per_second, error, due_at, leased_by, lease_seq, created_at, updated_at, finished_at
FROM replays
WHERE finished_at IS NULL AND due_at <= now()
ORDER BY due_at
LIMIT 1
FOR UPDATE SKIP LOCKED;

-- name: MoveReplay :exec
UPDATE replays
SET status = @status, cursor = sqlc.narg(cursor), replayed = replayed + @replayed::integer, skipped = skipped + @skipped::integer,
    error = NULLIF(@error::text, ''), due_at = now() + @delay::interval, updated_at = now(),
    finished_at = CASE WHEN @status IN ('completed', 'failed') THEN now() END
WHERE id = @id;

-- name: FailReplay :exec
UPDATE replays SET status = 'failed', error = @error::text, updated_at = now(), finished_at = now()
WHERE id = @id AND finished_at IS NULL;

-- name: PostponeReplay :exec
UPDATE replays SET due_at = now() + @delay::interval WHERE id = @id AND finished_at IS NULL;

-- name: CloseReplay :exec
-- CloseReplay counts the matched deliveries that were not replayed as skipped.
UPDATE replays SET skipped = greatest(skipped, matched - replayed) WHERE id = @id;

-- The Oldest queries find the deliveries of a job, oldest first, a window at a time.

-- name: OldestOfOrganization :many
SELECT id FROM deliveries
WHERE organization_id = @organization_id AND id > @after AND id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY id LIMIT @page;

-- name: OldestDeadLetters :many
SELECT delivery_id AS id FROM dead_letter
WHERE organization_id = @organization_id AND delivery_id > @after AND delivery_id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY delivery_id LIMIT @page;

-- name: OldestOfEndpoint :many
SELECT id FROM deliveries
WHERE endpoint_id = @endpoint_id AND id > @after AND id < @before
  AND created_at >= @from_time AND created_at < @to_time
ORDER BY id LIMIT @page;

-- name: MatchEnded :many
-- MatchEnded returns the wanted deliveries that a job has to resend. A delivery that ended after the job was created
-- did not match then: it has been resent since, or was in flight.
SELECT d.id
FROM (SELECT unnest(@ids::uuid[]) AS id, unnest(@created_ats::timestamptz[]) AS created_at) AS wanted
CROSS JOIN LATERAL (SELECT id, organization_id, owner_id, endpoint_id, url, event_type, status, test, finished_at
                    FROM deliveries
                    WHERE deliveries.id = wanted.id AND deliveries.created_at = wanted.created_at LIMIT 1) AS d
WHERE d.organization_id = @organization_id::text AND NOT d.test AND d.finished_at <= @ended_before::timestamptz
  AND d.status = ANY (@statuses::text[])
  AND (@owner_id::text = '' OR d.owner_id = @owner_id::text)
  AND (@event_type::text = '' OR d.event_type = @event_type::text)
  AND (sqlc.narg(endpoint_id)::uuid IS NULL OR d.endpoint_id = sqlc.narg(endpoint_id)::uuid)
  AND (@host_pattern::text = '' OR d.url ~ @host_pattern::text)
ORDER BY d.id;
