-- name: RunsSince :many
-- RunsSince returns runs with versions above one that are live or ended recently.
SELECT sqlc.embed(run) FROM run
WHERE version > @since
    AND (ended_at IS NULL OR ended_at > @ended_after::timestamptz)
    AND (expires_at IS NULL OR expires_at > @ended_after::timestamptz)
    AND (status IS NOT NULL OR abort_requested_at > @ended_after::timestamptz)
ORDER BY version;

-- name: GetRun :one
SELECT sqlc.embed(run) FROM run WHERE organization_id = @organization_id AND run_id = @run_id;

-- name: LockRun :one
SELECT sqlc.embed(run) FROM run WHERE organization_id = @organization_id AND run_id = @run_id FOR UPDATE;

-- name: MintRun :one
INSERT INTO run (organization_id, run_id, status, initiated_by, max_cost_cents, max_calls, models, allowed_tools,
    max_tool_calls, expires_at, approval_ref, metadata, parent_run_id, depth, created_at, version)
VALUES (@organization_id, @run_id, 'minted', @initiated_by, sqlc.narg('max_cost_cents'), sqlc.narg('max_calls'), @models, @allowed_tools,
    sqlc.narg('max_tool_calls'), @expires_at, @approval_ref, @metadata, @parent_run_id, @depth, now(), @version)
ON CONFLICT (organization_id, run_id) DO NOTHING
RETURNING sqlc.embed(run);

-- name: CountSubRuns :one
SELECT count(*) FROM run WHERE organization_id = @organization_id AND parent_run_id = @run_id AND @run_id <> '';

-- name: ShareRun :exec
-- ShareRun leaves a run what it keeps of its limits.
UPDATE run SET max_cost_cents = sqlc.narg('max_cost_cents'), max_calls = sqlc.narg('max_calls'),
    max_tool_calls = sqlc.narg('max_tool_calls'), version = @version
WHERE organization_id = @organization_id AND run_id = @run_id;

-- name: ExhaustRun :exec
-- ExhaustRun ends a run by a limit, with an audit entry and an event.
SELECT run_exhaust(@organization_id, @run_id, @reason);

-- name: MoveRun :exec
-- MoveRun has replicas read a run again.
UPDATE run SET version = @version WHERE organization_id = @organization_id AND run_id = @run_id;

-- name: RevokeRunsBelow :exec
-- RevokeRunsBelow revokes the runs below one that have not ended.
UPDATE run SET status = 'revoked', ended_at = @ended_at, revoked_by = @revoked_by, revoke_reason = @revoke_reason, version = @version
WHERE organization_id = @organization_id AND run_id IN (SELECT run_below(@organization_id, @run_id)) AND status IN ('minted', 'active');

-- name: AbortRunsBelow :exec
-- AbortRunsBelow asks the sessions of the runs below one to stop.
UPDATE run SET abort_requested_at = @abort_requested_at, abort_requested_by = @abort_requested_by, abort_reason = @abort_reason, version = @version
WHERE organization_id = @organization_id AND run_id IN (SELECT run_below(@organization_id, @run_id)) AND abort_requested_at IS NULL;

-- name: RevokeRun :exec
UPDATE run SET status = @status, ended_at = @ended_at, revoked_by = @revoked_by, revoke_reason = @revoke_reason, version = @version
WHERE organization_id = @organization_id AND run_id = @run_id;

-- name: AbortRun :exec
INSERT INTO run (organization_id, run_id, abort_requested_at, abort_requested_by, abort_reason, version)
VALUES (@organization_id, @run_id, @abort_requested_at, @abort_requested_by, @abort_reason, @version)
ON CONFLICT (organization_id, run_id) DO UPDATE SET abort_requested_at = excluded.abort_requested_at,
    abort_requested_by = excluded.abort_requested_by, abort_reason = excluded.abort_reason, version = excluded.version;

-- name: RunOrganizations :many
-- RunOrganizations returns the organizations with a run of this id: minted, stopped, in flight, or in the ledger.
SELECT organization_id FROM run WHERE run.run_id = @run_id
UNION SELECT organization_id FROM spend_run WHERE spend_run.run_id = @run_id
UNION SELECT organization_id FROM replica_session WHERE replica_session.run_id = @run_id
ORDER BY organization_id LIMIT 2;

-- name: RunSpend :one
-- RunSpend returns the usage of a session; elsewhere counts the calls in flight that other replicas reported for it.
-- The epoch stands for never.
SELECT
    (SELECT coalesce(sum(s.cost_pico_usd), 0) / 1e10 FROM spend_run AS s
        WHERE s.organization_id = @organization_id AND s.run_id = @run_id)::double precision AS spent_cents,
    (SELECT coalesce(sum(s.calls), 0) FROM spend_run AS s
        WHERE s.organization_id = @organization_id AND s.run_id = @run_id)::bigint AS calls,
    (SELECT coalesce(min(s.first_at), 'epoch') FROM spend_run AS s
        WHERE s.organization_id = @organization_id AND s.run_id = @run_id)::timestamptz AS first_at,
    (SELECT coalesce(max(s.last_at), 'epoch') FROM spend_run AS s
        WHERE s.organization_id = @organization_id AND s.run_id = @run_id)::timestamptz AS last_at,
    (SELECT coalesce(sum(b.amount_pico_usd), 0) / 1e10 FROM budget_reservation AS b
        WHERE b.organization_id = @organization_id AND b.run_id = @run_id)::double precision AS reserved_cents,
    (SELECT count(*) FROM budget_reservation AS b
        WHERE b.organization_id = @organization_id AND b.run_id = @run_id)::bigint AS reservations,
    (SELECT coalesce(min(b.reserved_at), 'epoch') FROM budget_reservation AS b
        WHERE b.organization_id = @organization_id AND b.run_id = @run_id)::timestamptz AS reserved_first_at,
    (SELECT coalesce(max(b.reserved_at), 'epoch') FROM budget_reservation AS b
        WHERE b.organization_id = @organization_id AND b.run_id = @run_id)::timestamptz AS reserved_last_at,
    (SELECT count(*) FROM budget_reservation AS b
        WHERE b.organization_id = @organization_id AND b.run_id = @run_id AND b.tool_digest IS NOT NULL)::bigint AS tool_reservations,
    coalesce((SELECT u.calls FROM run_tool_use AS u
        WHERE u.organization_id = @organization_id AND u.run_id = @run_id), 0)::bigint AS tool_calls,
    (SELECT coalesce(sum(f.calls), 0) FROM replica_session AS f
        WHERE f.organization_id = @organization_id AND f.run_id = @run_id AND f.replica_id <> @self)::bigint AS elsewhere;

-- name: ListRuns :many
-- ListRuns returns minted runs, newest first, with their usage as in RunSpend. A status is that of the moment, as
-- run.Run.At has it: an end may be reached and not stored yet.
SELECT sqlc.embed(r), (s.cost / 1e10)::double precision AS spent_cents, s.calls, s.first_at, s.last_at,
    (b.amount / 1e10)::double precision AS reserved_cents, b.reservations, b.first_at AS reserved_first_at, b.last_at AS reserved_last_at,
    b.tool_calls AS tool_reservations, u.calls AS tool_calls, f.calls AS elsewhere
FROM run AS r
CROSS JOIN LATERAL (
    SELECT coalesce(sum(s.cost_pico_usd), 0)::numeric AS cost, coalesce(sum(s.calls), 0)::bigint AS calls,
        coalesce(min(s.first_at), 'epoch')::timestamptz AS first_at, coalesce(max(s.last_at), 'epoch')::timestamptz AS last_at
    FROM spend_run AS s WHERE s.organization_id = r.organization_id AND s.run_id = r.run_id
) AS s
CROSS JOIN LATERAL (
    SELECT coalesce(sum(b.amount_pico_usd), 0)::numeric AS amount, count(*) AS reservations,
        coalesce(min(b.reserved_at), 'epoch')::timestamptz AS first_at, coalesce(max(b.reserved_at), 'epoch')::timestamptz AS last_at,
        count(*) FILTER (WHERE b.tool_digest IS NOT NULL) AS tool_calls
    FROM budget_reservation AS b WHERE b.organization_id = r.organization_id AND b.run_id = r.run_id
) AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(u.calls), 0)::bigint AS calls FROM run_tool_use AS u
    WHERE u.organization_id = r.organization_id AND u.run_id = r.run_id
) AS u
CROSS JOIN LATERAL (
    SELECT coalesce(sum(f.calls), 0)::bigint AS calls FROM replica_session AS f
    WHERE f.organization_id = r.organization_id AND f.run_id = r.run_id AND f.replica_id <> @self
) AS f
WHERE r.organization_id = @organization_id AND r.status IS NOT NULL
  AND (@parent_run_id::text = '' OR r.parent_run_id = @parent_run_id)
  AND (sqlc.narg(since)::timestamptz IS NULL OR r.created_at >= sqlc.narg(since))
  AND (sqlc.narg(until)::timestamptz IS NULL OR r.created_at < sqlc.narg(until))
  AND (sqlc.narg(before)::timestamptz IS NULL OR (r.created_at, r.run_id) < (sqlc.narg(before), @before_run::text))
  AND (@status::text = '' OR @status = CASE
        WHEN r.status NOT IN ('minted', 'active') THEN r.status
        WHEN r.expires_at <= @now::timestamptz THEN 'expired'
        WHEN s.calls >= r.max_calls OR s.cost >= r.max_cost_cents::numeric * 1e10
            OR u.calls - b.tool_calls >= r.max_tool_calls THEN 'exhausted'
        WHEN s.first_at > 'epoch' OR b.reservations > 0 THEN 'active'
        ELSE r.status
    END)
ORDER BY r.created_at DESC, r.run_id DESC
LIMIT @page;

-- name: SessionPage :many
-- SessionPage returns the run ids of an organization's sessions after one, in order: minted, stopped, billed or in
-- flight. Each step of the recursion reads the next row of each primary key: by the organization alone, the planner may
-- take the index of run ids and read other organizations' rows.
WITH RECURSIVE flight AS MATERIALIZED (
    SELECT f.run_id FROM replica_session AS f WHERE f.organization_id = @organization_id AND f.run_id > @after::text
    UNION
    SELECT b.run_id FROM budget_reservation AS b WHERE b.organization_id = @organization_id AND b.run_id > @after
), page AS (
    SELECT @after::text AS run_id, 0 AS place
    UNION ALL
    SELECT following.run_id, p.place + 1 FROM page AS p CROSS JOIN LATERAL (
        SELECT least(
            (SELECT CASE n.organization_id WHEN @organization_id THEN n.run_id END FROM (
                SELECT r.organization_id, r.run_id FROM run AS r
                WHERE (r.organization_id, r.run_id) > (@organization_id, p.run_id) AND NOT @in_flight::boolean
                ORDER BY r.organization_id, r.run_id LIMIT 1
            ) AS n),
            (SELECT CASE n.organization_id WHEN @organization_id THEN n.run_id END FROM (
                SELECT s.organization_id, s.run_id FROM spend_run AS s
                WHERE (s.organization_id, s.run_id) > (@organization_id, p.run_id) AND NOT @in_flight
                ORDER BY s.organization_id, s.run_id LIMIT 1
            ) AS n),
            (SELECT min(f.run_id) FROM flight AS f WHERE f.run_id > p.run_id)
        ) AS run_id
    ) AS following
    WHERE p.place < @page::integer AND following.run_id IS NOT NULL
)
SELECT page.run_id::text AS run_id FROM page WHERE page.place > 0 ORDER BY page.place;

-- name: RunsNamed :many
SELECT sqlc.embed(run) FROM run WHERE organization_id = @organization_id AND run_id = ANY(@run_ids::text[]);

-- name: RunSpends :many
-- RunSpends returns the usage of sessions as in RunSpend.
SELECT named.run_id::text AS run_id, (s.cost / 1e10)::double precision AS spent_cents, s.calls, s.first_at, s.last_at,
    (b.amount / 1e10)::double precision AS reserved_cents, b.reservations, b.first_at AS reserved_first_at, b.last_at AS reserved_last_at,
    b.tool_calls AS tool_reservations, u.calls AS tool_calls, f.calls AS elsewhere
FROM unnest(@run_ids::text[]) AS named (run_id)
CROSS JOIN LATERAL (
    SELECT coalesce(sum(s.cost_pico_usd), 0)::numeric AS cost, coalesce(sum(s.calls), 0)::bigint AS calls,
        coalesce(min(s.first_at), 'epoch')::timestamptz AS first_at, coalesce(max(s.last_at), 'epoch')::timestamptz AS last_at
    FROM spend_run AS s WHERE s.organization_id = @organization_id AND s.run_id = named.run_id
) AS s
CROSS JOIN LATERAL (
    SELECT coalesce(sum(b.amount_pico_usd), 0)::numeric AS amount, count(*) AS reservations,
        coalesce(min(b.reserved_at), 'epoch')::timestamptz AS first_at, coalesce(max(b.reserved_at), 'epoch')::timestamptz AS last_at,
        count(*) FILTER (WHERE b.tool_digest IS NOT NULL) AS tool_calls
    FROM budget_reservation AS b WHERE b.organization_id = @organization_id AND b.run_id = named.run_id
) AS b
CROSS JOIN LATERAL (
    SELECT coalesce(sum(u.calls), 0)::bigint AS calls FROM run_tool_use AS u
    WHERE u.organization_id = @organization_id AND u.run_id = named.run_id
) AS u
CROSS JOIN LATERAL (
    SELECT coalesce(sum(f.calls), 0)::bigint AS calls FROM replica_session AS f
    WHERE f.organization_id = @organization_id AND f.run_id = named.run_id AND f.replica_id <> @self
) AS f;

-- name: EndExpiredRuns :execrows
WITH over AS (
    SELECT organization_id, run_id FROM run
    WHERE status IN ('minted', 'active') AND expires_at <= now()
    ORDER BY expires_at LIMIT 500 FOR UPDATE SKIP LOCKED
), ended AS (
    UPDATE run SET status = 'expired', ended_at = run.expires_at FROM over
    WHERE run.organization_id = over.organization_id AND run.run_id = over.run_id
    RETURNING run.organization_id, run.run_id
)
INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
SELECT 'system', 'system', 'run.expire', organization_id, 'run', run_id, '', '', '{}' FROM ended;

-- name: EndExhaustedRuns :execrows
-- EndExhaustedRuns ends the recently called runs that have used up a limit, and tells their organizations.
WITH used AS (
    SELECT s.organization_id, s.run_id, sum(s.calls) AS calls, sum(s.cost_pico_usd) AS cost FROM spend_run AS s
    WHERE EXISTS (
        SELECT FROM spend_run AS late
        WHERE late.organization_id = s.organization_id AND late.run_id = s.run_id AND late.last_at > @called_after::timestamptz
    )
    GROUP BY s.organization_id, s.run_id
), ended AS (
    UPDATE run SET status = 'exhausted', ended_at = now(), end_reason = CASE
        WHEN used.cost >= run.max_cost_cents::numeric * 1e10 THEN 'max_cost_cents'
        WHEN used.calls >= run.max_calls THEN 'max_calls'
        ELSE 'max_tool_calls'
    END FROM used
    WHERE run.organization_id = used.organization_id AND run.run_id = used.run_id AND run.status IN ('minted', 'active')
        AND (used.calls >= run.max_calls OR used.cost >= run.max_cost_cents::numeric * 1e10
            OR CASE WHEN run.max_tool_calls IS NOT NULL THEN run_tool_calls(run.organization_id, run.run_id) >= run.max_tool_calls END)
    RETURNING run.organization_id, run.run_id, used.calls, used.cost
), recorded AS MATERIALIZED (
    SELECT organization_id, run_id, house_event_add(organization_id, 'switchyard.run.exhausted', 'run/' || run_id, '', jsonb_build_object(
        'organization_id', organization_id, 'run_id', run_id, 'calls', calls, 'spent_cents', trim_scale(cost * 1e-10))) AS done
    FROM ended
)
INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
SELECT 'system', 'system', 'run.exhaust', organization_id, 'run', run_id, '', '', '{}' FROM recorded;
