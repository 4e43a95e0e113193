-- name: Reserve :one
-- Reserve reserves the worst case of calls under the limits of their organization, run and key.
SELECT budget_reserve(
    @call, @replica, @organization_id, @run_id, @amount, @calls::integer, @key_origin, @key_ceiling_cents, @key_period
)::text AS refusal;

-- name: ReserveTool :one
-- ReserveTool reserves the worst case of a call of a tool as Reserve does, and counts it under the limits of its run.
SELECT tool_reserve(
    @call, @replica, @organization_id, @run_id, @amount, @key_origin, @key_ceiling_cents, @key_period,
    @call_digest, @max_tool_calls::integer, @repeat_limit::integer
)::text AS refusal;

-- name: BudgetRoom :one
-- BudgetRoom returns what the ceilings of a call's key, organization and run leave for it, in pico-USD.
SELECT floor(greatest(least(
    9223372036854775807,
    (SELECT asked.ceiling * 1e10 - budget_key_used(@organization_id, @key_origin, @key_period)
        FROM (SELECT @key_ceiling_cents::bigint AS ceiling) AS asked WHERE asked.ceiling > 0),
    (SELECT o.budget_ceiling_cents::numeric * 1e10
        - (SELECT coalesce(sum(d.cost_pico_usd), 0) FROM spend_day AS d
            WHERE d.organization_id = o.organization_id AND d.day >= budget_period_start(o.budget_period, clock_timestamp()))
        - (SELECT coalesce(sum(b.amount_pico_usd), 0) FROM budget_reservation AS b WHERE b.organization_id = o.organization_id)
        FROM organization AS o WHERE o.organization_id = @organization_id AND o.budget_ceiling_cents > 0),
    (SELECT r.max_cost_cents::numeric * 1e10
        - (SELECT coalesce(sum(s.cost_pico_usd), 0) FROM spend_run AS s
            WHERE s.organization_id = r.organization_id AND s.run_id = r.run_id)
        - (SELECT coalesce(sum(b.amount_pico_usd), 0) FROM budget_reservation AS b
            WHERE b.organization_id = r.organization_id AND b.run_id = r.run_id)
        FROM run AS r WHERE r.organization_id = @organization_id AND r.run_id = @run_id AND r.max_cost_cents IS NOT NULL)
), 0))::bigint AS room;

-- name: ReleaseReservations :exec
-- ReleaseReservations releases reservations. Calls of tools that were not made no longer count.
WITH lapsed AS (
    DELETE FROM budget_lapse AS l WHERE l.id = ANY(@ids::uuid[]) AND l.replica_id = @replica
), released AS (
    DELETE FROM budget_reservation AS b WHERE b.id = ANY(@ids::uuid[]) AND b.replica_id = @replica
    RETURNING b.organization_id, b.run_id, b.tool_digest
), unmade AS (
    SELECT organization_id, run_id, tool_digest, count(*) AS calls FROM released WHERE tool_digest IS NOT NULL GROUP BY 1, 2, 3
), locked AS MATERIALIZED (
    -- In one order, since another replica may release calls of the same runs.
    SELECT u.organization_id, u.run_id FROM run_tool_use AS u
    WHERE (u.organization_id, u.run_id) IN (SELECT n.organization_id, n.run_id FROM unmade AS n)
    ORDER BY u.organization_id, u.run_id FOR NO KEY UPDATE
), repeats AS (
    UPDATE run_tool_repeat AS r SET calls = r.calls - n.calls FROM unmade AS n JOIN locked AS l USING (organization_id, run_id)
    WHERE r.organization_id = n.organization_id AND r.run_id = n.run_id AND r.call_digest = n.tool_digest AND r.calls >= n.calls
)
UPDATE run_tool_use AS u SET calls = u.calls - n.calls
FROM (SELECT organization_id, run_id, sum(calls)::bigint AS calls FROM unmade GROUP BY 1, 2) AS n
JOIN locked AS l USING (organization_id, run_id)
WHERE u.organization_id = n.organization_id AND u.run_id = n.run_id AND u.calls >= n.calls;

-- name: Reclaim :many
SELECT lost::uuid AS lost FROM budget_reclaim(@replica) AS lost;

-- name: DropLapses :exec
-- DropLapses drops the lapses of calls that left no ledger row.
DELETE FROM budget_lapse WHERE lapsed_at < now() - interval '30 days';

-- name: DropToolUse :exec
-- DropToolUse drops the counts of runs that began more than 31 days ago: no authority lasts longer than 30.
DELETE FROM run_tool_use AS u WHERE (u.organization_id, u.run_id) IN (
    SELECT old.organization_id, old.run_id FROM run_tool_use AS old WHERE old.first_at < now() - interval '31 days' ORDER BY old.first_at LIMIT 500
);

-- name: SeeReplica :execrows
UPDATE replica SET seen_at = now() WHERE id = @id;

-- name: AddReplica :exec
INSERT INTO replica (id) VALUES (@id) ON CONFLICT (id) DO NOTHING;

-- name: ForgetReplicas :execrows
DELETE FROM replica WHERE seen_at < now() - make_interval(secs => @seconds::double precision) AND id <> @self;

-- name: RemoveReplica :exec
-- RemoveReplica removes a replica that stops. A replica with a call whose row waits on disk stays until
-- ForgetReplicas.
DELETE FROM replica WHERE replica.id = @id AND NOT EXISTS (SELECT FROM budget_reservation WHERE replica_id = @id);

-- name: ClearSessions :exec
DELETE FROM replica_session WHERE replica_id = @replica;

-- name: AddSessions :exec
INSERT INTO replica_session (replica_id, organization_id, run_id, calls)
SELECT @replica, unnest(@organization_ids::text[]), unnest(@run_ids::text[]), unnest(@calls::integer[]);
