-- name: JoinReplicas :one
INSERT INTO replica (name) VALUES (@name) RETURNING replica_id;

-- name: BeatReplica :execrows
UPDATE replica SET seen_at = now() WHERE replica_id = @replica_id;

-- name: BuryReplicas :many
DELETE FROM replica WHERE seen_at < now() - @silence::interval AND replica_id <> @self RETURNING replica_id;

-- name: LeaveReplicas :exec
DELETE FROM replica WHERE replica_id = @replica_id;

-- name: ListOrphanFlows :many
-- Flows with leases of replicas that are no longer listed.
SELECT DISTINCT q.flow_id
FROM delivery_queue q
WHERE q.leased_by IS NOT NULL AND NOT EXISTS (SELECT FROM replica r WHERE r.replica_id = q.leased_by)
ORDER BY q.flow_id;

-- name: FreeOrphans :execrows
-- Gives such rows back at once. The fence keeps a replica that was only slow
-- from settling them.
UPDATE delivery_queue q
SET due_at = now(), lease_seq = q.lease_seq + 1, leased_by = NULL
WHERE q.leased_by IS NOT NULL AND q.flow_id = ANY (@flow_ids::bigint[])
  AND NOT EXISTS (SELECT FROM replica r WHERE r.replica_id = q.leased_by);
