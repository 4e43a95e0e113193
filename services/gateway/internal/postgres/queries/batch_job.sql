-- name: InsertBatchJob :execrows
-- InsertBatchJob begins a job unless its organization has a number of them under way already.
INSERT INTO batch_job (
    id, organization_id, owner_id, run_id, form, stage, cancel_requested, erased, provider, vendor_id, key_id, sealed_state, requests_key_id, sealed_requests,
    reservation_id, due_at, holder, held_until, lease, created_at, expires_at
)
SELECT @id, @organization_id, @owner_id, @run_id, @form, 'making', false, false, '', '', @key_id, @sealed_state, @requests_key_id, @sealed_requests,
    @reservation_id, now(), '', now(), 0, @created_at, @expires_at
WHERE (SELECT count(*) FROM batch_job AS b WHERE b.organization_id = @organization_id AND b.stage <> 'ended') < @most::int;

-- name: ClaimBatchJob :one
-- ClaimBatchJob gives a replica the job that is due for the longest and that no replica holds, except those of some
-- organizations. Claims go by this clock alone, since those of replicas differ.
UPDATE batch_job
SET holder = @holder, held_until = now() + make_interval(secs => @hold_seconds::double precision), lease = lease + 1
WHERE id IN (
    SELECT b.id FROM batch_job AS b
    WHERE b.stage <> 'ended' AND b.due_at <= now() AND b.held_until <= now() AND b.organization_id <> ALL (@full_organizations::text[])
    ORDER BY b.due_at
    LIMIT 1
    FOR UPDATE SKIP LOCKED
)
RETURNING id, organization_id, owner_id, run_id, form, stage, cancel_requested, erased, provider, vendor_id, key_id, sealed_state,
    reservation_id, lease, created_at, expires_at;

-- name: BatchRequests :one
SELECT requests_key_id, sealed_requests FROM batch_job WHERE id = @id;

-- name: RenewBatchJob :execrows
UPDATE batch_job SET held_until = now() + make_interval(secs => @hold_seconds::double precision)
WHERE id = @id AND lease = @lease AND holder <> '';

-- name: SaveBatchJob :execrows
-- SaveBatchJob writes the state of a claimed job.
UPDATE batch_job SET key_id = @key_id, sealed_state = @sealed_state WHERE id = @id AND lease = @lease AND holder <> '';

-- name: MoveBatchJob :execrows
-- MoveBatchJob writes a step of a claimed job, and gives the job back until it is due again.
UPDATE batch_job
SET stage = @stage, provider = @provider, vendor_id = @vendor_id, key_id = @key_id, sealed_state = @sealed_state,
    due_at = CASE WHEN cancel_requested AND NOT @cancel_seen::boolean THEN now()
        ELSE now() + make_interval(secs => @after_seconds::double precision) END,
    expires_at = CASE WHEN erased THEN expires_at ELSE @expires_at::timestamptz END, holder = '', held_until = now()
WHERE id = @id AND lease = @lease AND holder <> '';

-- name: ReleaseBatchReservation :exec
DELETE FROM budget_reservation WHERE id = @id;

-- name: DropErasedResults :exec
-- DropErasedResults deletes files of a job whose organization was erased, or that was deleted, while they were written.
DELETE FROM file
WHERE id = ANY (@ids::text[]) AND EXISTS (SELECT FROM batch_job AS b WHERE b.id = @job_id AND b.erased);

-- name: GetBatchJob :one
SELECT id, organization_id, owner_id, run_id, form, stage, cancel_requested, erased, provider, vendor_id, key_id, sealed_state,
    reservation_id, lease, created_at, expires_at
FROM batch_job
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND form = @form
    AND (stage NOT IN ('clearing', 'ended') OR expires_at > @now);

-- name: ListBatchJobs :many
-- ListBatchJobs returns a page of jobs, the newest first: all, or those older than a job.
SELECT b.id, b.organization_id, b.owner_id, b.run_id, b.form, b.stage, b.cancel_requested, b.erased, b.provider, b.vendor_id,
    b.key_id, b.sealed_state, b.reservation_id, b.lease, b.created_at, b.expires_at
FROM batch_job AS b
WHERE b.organization_id = @organization_id AND b.owner_id = @owner_id AND b.form = @form
    AND (b.stage NOT IN ('clearing', 'ended') OR b.expires_at > @now)
    AND (@older_than::text = '' OR (b.created_at, b.id) < (
        SELECT a.created_at, a.id FROM batch_job AS a WHERE a.id = @older_than AND a.organization_id = @organization_id
    ))
ORDER BY b.created_at DESC, b.id DESC
LIMIT @count::int;

-- name: ListNewerBatchJobs :many
-- ListNewerBatchJobs returns a page of the jobs that are newer than one, the oldest first.
SELECT b.id, b.organization_id, b.owner_id, b.run_id, b.form, b.stage, b.cancel_requested, b.erased, b.provider, b.vendor_id,
    b.key_id, b.sealed_state, b.reservation_id, b.lease, b.created_at, b.expires_at
FROM batch_job AS b
WHERE b.organization_id = @organization_id AND b.owner_id = @owner_id AND b.form = @form
    AND (b.stage NOT IN ('clearing', 'ended') OR b.expires_at > @now)
    AND (b.created_at, b.id) > (
        SELECT a.created_at, a.id FROM batch_job AS a WHERE a.id = @newer_than AND a.organization_id = @organization_id
    )
ORDER BY b.created_at, b.id
LIMIT @count::int;

-- name: CancelBatchJob :execrows
-- CancelBatchJob asks for the end of a job that is under way, and makes it due.
UPDATE batch_job
SET cancel_requested = true, due_at = least(due_at, now())
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND stage IN ('making', 'running');

-- name: DeleteBatchJob :execrows
-- DeleteBatchJob deletes a job that has ended.
DELETE FROM batch_job
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND stage = 'ended';

-- name: HideBatchJob :execrows
-- HideBatchJob hides a job that has ended for its callers, but whose files at the vendor are still to be deleted.
UPDATE batch_job SET erased = true, expires_at = least(expires_at, @now::timestamptz)
WHERE id = @id AND organization_id = @organization_id AND owner_id = @owner_id AND stage = 'clearing';

-- name: HasVendorBatch :one
SELECT EXISTS (SELECT FROM batch_job WHERE provider = @provider AND vendor_id = @vendor_id) AS has;

-- name: DropBatchJobs :execrows
-- DropBatchJobs drops a bounded number of ended jobs that are no longer kept.
DELETE FROM batch_job
WHERE id IN (
    SELECT b.id FROM batch_job AS b WHERE b.stage = 'ended' AND b.expires_at <= @now
    ORDER BY b.expires_at LIMIT @count::int FOR UPDATE SKIP LOCKED
);

-- name: EraseBatchJobs :exec
-- EraseBatchJobs erases an organization's ended jobs.
DELETE FROM batch_job WHERE organization_id = @organization_id AND stage = 'ended' AND created_at <= @before;

-- name: EndErasedBatchJobs :exec
-- EndErasedBatchJobs asks for the end of an organization's other jobs, whose results are not to be kept.
UPDATE batch_job
SET cancel_requested = true, erased = true, due_at = least(due_at, now()), expires_at = now()
WHERE organization_id = @organization_id AND stage <> 'ended' AND created_at <= @before;
