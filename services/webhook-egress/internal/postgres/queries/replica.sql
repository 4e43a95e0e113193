-- name: JoinReplicas :one
INSERT INTO replica (name) VALUES (@name) RETURNING replica_id;

-- name: RecordHeartbeat :execrows
UPDATE replica SET seen_at = now() WHERE replica_id = @replica_id;

-- name: RemoveSilentReplicas :many
DELETE FROM replica WHERE seen_at < now() - @silence::interval AND replica_id <> @self RETURNING replica_id;

-- name: LeaveReplicas :exec
DELETE FROM replica WHERE replica_id = @replica_id;

-- name: ListOrphanFlows :many
-- ListOrphanFlows returns the flows with leases of replicas that are not listed. It searches the gaps between the
-- listed numbers, so that leases of listed replicas are not read, nor their dead rows.
SELECT DISTINCT q.flow_id
FROM (SELECT coalesce(lag(replica_id) OVER (ORDER BY replica_id), 0) AS above, replica_id AS below
      FROM (SELECT replica_id FROM replica UNION ALL SELECT 9223372036854775807) AS listed) AS gap
CROSS JOIN LATERAL (SELECT flow_id FROM delivery_queue WHERE leased_by > gap.above AND leased_by < gap.below OFFSET 0) AS q
ORDER BY q.flow_id;

-- name: FreeOrphans :execrows
-- FreeOrphans makes orphaned rows due: at once the first time, later with each takeover in a row, so that a delivery
-- that crashes replicas is claimed less and less often. The fence rejects results of a replica that was only slow.
UPDATE delivery_queue q
SET due_at = now() + (@delays::interval[])[least(q.takeovers + 1, cardinality(@delays::interval[]))],
    lease_seq = q.lease_seq + 1, leased_by = NULL, takeovers = q.takeovers + 1
WHERE q.leased_by IS NOT NULL AND q.flow_id = ANY (@flow_ids::bigint[])
  AND NOT EXISTS (SELECT FROM replica r WHERE r.replica_id = q.leased_by);
