-- name: Reserve :one
-- Reserve reserves the worst case of calls under the limits of their organization, run and key.
SELECT budget_reserve(
    @call, @replica, @organization_id, @run_id, @amount, @calls::integer, @key_origin, @key_ceiling_cents, @key_period
)::text AS refusal;

-- name: ReleaseReservations :exec
WITH lapsed AS (
    DELETE FROM budget_lapse AS l WHERE l.id = ANY(@ids::uuid[]) AND l.replica_id = @replica
)
DELETE FROM budget_reservation AS b WHERE b.id = ANY(@ids::uuid[]) AND b.replica_id = @replica;

-- name: Reclaim :many
SELECT lost::uuid AS lost FROM budget_reclaim(@replica) AS lost;

-- name: DropLapses :exec
-- DropLapses drops the lapses of calls that left no ledger row.
DELETE FROM budget_lapse WHERE lapsed_at < now() - interval '30 days';

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
