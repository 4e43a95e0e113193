-- name: JoinReplicas :one
INSERT INTO replica (name) VALUES (@name) RETURNING replica_id;

-- name: BeatReplica :execrows
UPDATE replica SET seen_at = now() WHERE replica_id = @replica_id;

-- name: BuryReplicas :many
DELETE FROM replica WHERE seen_at < now() - @silence::interval AND replica_id <> @self RETURNING replica_id;

-- name: LeaveReplicas :exec
DELETE FROM replica WHERE replica_id = @replica_id;

-- name: ListOrphanFlows :many
-- Flows with leases of replicas that are no longer listed: of the numbers between
-- those of the listed ones. Leases of these are not read, dead ones neither.
SELECT DISTINCT q.flow_id
FROM (SELECT coalesce(lag(replica_id) OVER (ORDER BY replica_id), 0) AS above, replica_id AS below
      FROM (SELECT replica_id FROM replica UNION ALL SELECT 9223372036854775807) AS listed) AS gap
JOIN delivery_queue q ON q.leased_by > gap.above AND q.leased_by < gap.below
ORDER BY q.flow_id;

-- name: FreeOrphans :execrows
-- Gives such rows back: at once the first time, later with each takeover in a row, so
-- that a delivery at which replicas end is claimed ever more seldom. The fence keeps a
-- replica that was only slow from settling them.
UPDATE delivery_queue q
SET due_at = now() + (@delays::interval[])[least(q.takeovers + 1, cardinality(@delays::interval[]))],
    lease_seq = q.lease_seq + 1, leased_by = NULL, takeovers = q.takeovers + 1
WHERE q.leased_by IS NOT NULL AND q.flow_id = ANY (@flow_ids::bigint[])
  AND NOT EXISTS (SELECT FROM replica r WHERE r.replica_id = q.leased_by);
