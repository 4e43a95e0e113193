-- name: PutReplicaReport :exec
INSERT INTO replica_report (replica_id, report) VALUES (@replica_id, @report)
ON CONFLICT (replica_id) DO UPDATE SET report = excluded.report, seen_at = now();

-- name: ReplicaReports :many
SELECT replica_id, report, (extract(epoch FROM now() - seen_at) * 1000)::bigint AS age_ms FROM replica_report;

-- name: RemoveReplicaReport :exec
DELETE FROM replica_report WHERE replica_id = @replica_id;

-- name: ForgetReplicaReports :exec
DELETE FROM replica_report WHERE seen_at < now() - make_interval(secs => @silent_seconds);
