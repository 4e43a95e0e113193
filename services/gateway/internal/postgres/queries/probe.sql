-- name: TakeProbeLease :execrows
-- TakeProbeLease takes the lease if it is free or has expired.
INSERT INTO probe_lease AS l (holder, kind, taken_at, until)
VALUES (@holder, @kind, clock_timestamp(), clock_timestamp() + make_interval(secs => @seconds::double precision))
ON CONFLICT (one) DO UPDATE
SET holder = excluded.holder, kind = excluded.kind, taken_at = excluded.taken_at, until = excluded.until
WHERE l.until <= clock_timestamp();

-- name: GetProbeLease :one
SELECT holder, kind, taken_at, until FROM probe_lease WHERE until > clock_timestamp();

-- name: ProlongProbeLease :execrows
UPDATE probe_lease SET until = clock_timestamp() + make_interval(secs => @seconds::double precision)
WHERE holder = @holder AND until > clock_timestamp();

-- name: ReleaseProbeLease :exec
DELETE FROM probe_lease WHERE holder = @holder;
