-- name: CreateApproval :one
-- CreateApproval creates an approval, decided or not.
INSERT INTO approval (
    ref, organization_id, status, tool, arguments, requested_by, asked_user, initiated_by, run_id, server_id, description,
    decided_by, decided_at, decided_via, reason, created_at, expires_at
) VALUES (
    @ref, @organization_id, @status, @tool, @arguments, @requested_by, @asked_user,
    @initiated_by, @run_id, @server_id, @description, @decided_by, sqlc.narg(decided_at)::timestamptz, @decided_via, @reason, @created_at, @expires_at
)
RETURNING id;

-- name: RunInitiators :many
-- RunInitiators returns who initiated a run and the runs above it.
WITH RECURSIVE above AS (
    SELECT run.run_id, run.parent_run_id, run.initiated_by FROM run
    WHERE run.organization_id = @organization_id AND run.run_id = @run_id
    UNION
    SELECT r.run_id, r.parent_run_id, r.initiated_by FROM run AS r
    INNER JOIN above ON r.run_id = above.parent_run_id
    WHERE r.organization_id = @organization_id AND above.parent_run_id <> ''
)
SELECT DISTINCT initiated_by::text AS initiated_by FROM above WHERE initiated_by <> '';

-- name: GetApproval :one
SELECT *
FROM approval
WHERE ref = @ref AND organization_id = @organization_id;

-- name: LockApproval :one
-- LockApproval serializes concurrent decisions on one approval.
SELECT *
FROM approval
WHERE ref = @ref AND organization_id = @organization_id
FOR UPDATE;

-- name: DecideApproval :exec
UPDATE approval
SET status = @status, decided_by = @decided_by, decided_at = @decided_at::timestamptz, decided_via = @decided_via, reason = @reason
WHERE id = @id;

-- name: ExpireApproval :exec
-- ExpireApproval ends an approval that waits for its decision.
UPDATE approval
SET expires_at = greatest(@expires_at::timestamptz, created_at + interval '1 microsecond')
WHERE id = @id AND status = 'pending' AND expires_at > @expires_at;

-- name: ListApprovals :many
-- ListApprovals returns approvals, newest first. A pending approval past its time counts as expired, or as superseded if its
-- call was closed by then.
SELECT approval.*
FROM approval
LEFT JOIN approval_call ON approval_call.approval_id = approval.id
    AND approval_call.state = 'closed' AND approval_call.ended_at <= approval.expires_at
WHERE approval.organization_id = @organization_id
    AND (@before::bigint = 0 OR approval.id < @before)
    AND (@run_id::text = '' OR approval.run_id = @run_id)
    AND (@tool::text = '' OR approval.tool = @tool)
    AND CASE @status::text
        WHEN '' THEN true
        WHEN 'pending' THEN approval.status = 'pending' AND approval.expires_at > @now::timestamptz
        WHEN 'expired' THEN approval.status = 'pending' AND approval.expires_at <= @now::timestamptz AND approval_call.approval_id IS NULL
        WHEN 'superseded' THEN approval.status = 'pending' AND approval.expires_at <= @now::timestamptz AND approval_call.approval_id IS NOT NULL
        ELSE approval.status = @status
    END
ORDER BY approval.id DESC
LIMIT @count;

-- name: ApprovalCalls :many
-- ApprovalCalls returns the calls that approvals are bound to.
SELECT * FROM approval_call WHERE approval_id = ANY(@ids::bigint[]);

-- name: LatestCall :one
-- LatestCall locks the latest approval of a call.
SELECT sqlc.embed(approval), sqlc.embed(approval_call)
FROM approval_call
INNER JOIN approval ON approval.id = approval_call.approval_id
WHERE approval_call.organization_id = @organization_id AND approval_call.run_id = @run_id AND approval_call.call_digest = @call_digest
ORDER BY approval_call.approval_id DESC
LIMIT 1
FOR UPDATE;

-- name: CountWaitingCalls :one
-- CountWaitingCalls counts the approvals of calls that wait for a decision, up to a bound.
SELECT count(*) FROM (
    SELECT 1
    FROM approval_call
    INNER JOIN approval ON approval.id = approval_call.approval_id
    WHERE approval_call.organization_id = @organization_id AND approval_call.state = 'waiting'
        AND approval.status = 'pending' AND approval.expires_at > @now::timestamptz
    LIMIT @most
) AS waiting;

-- name: CreateCall :exec
INSERT INTO approval_call (
    approval_id, organization_id, run_id, call_digest, definition_digest, policy_version, rule, approvers, proof,
    standing_allowed, price_pico_usd, reviewed_by, redacted, unknown_ref, standing_ref
) VALUES (
    @approval_id, @organization_id, @run_id, @call_digest, @definition_digest, @policy_version, @rule, @approvers, @proof,
    @standing_allowed, @price_pico_usd, @reviewed_by, @redacted, @unknown_ref, @standing_ref
);

-- name: ClaimCall :one
-- ClaimCall claims an approved call for one execution. One whose lease has run out before it was sent may be claimed again.
UPDATE approval_call
SET state = 'claimed', attempt = attempt + 1, replica = @replica, lease_until = @lease_until::timestamptz, sent_at = NULL
WHERE approval_id = @approval_id AND (state = 'waiting' OR state = 'claimed' AND lease_until <= @now::timestamptz)
RETURNING *;

-- name: SendCall :execrows
UPDATE approval_call
SET state = 'sent', sent_at = @sent_at::timestamptz, lease_until = @lease_until::timestamptz
WHERE approval_id = @approval_id AND attempt = @attempt AND replica = @replica AND state = 'claimed' AND lease_until > @sent_at;

-- name: ReleaseCall :execrows
-- ReleaseCall gives back a claim of which nothing has left.
UPDATE approval_call
SET state = 'waiting', lease_until = NULL, sent_at = NULL
WHERE approval_id = @approval_id AND attempt = @attempt AND replica = @replica AND state IN ('claimed', 'sent');

-- name: SettleCall :execrows
-- SettleCall writes how a call that was sent has ended, also after its lease has run out.
UPDATE approval_call
SET state = @state, ended_at = @ended_at::timestamptz, lease_until = NULL
WHERE approval_id = @approval_id AND attempt = @attempt AND replica = @replica
    AND (state = 'sent' OR state = 'unknown' AND @state::text <> 'unknown');

-- name: CloseCall :exec
-- CloseCall ends a call that will not be made by its approval.
UPDATE approval_call
SET state = 'closed', ended_at = @ended_at::timestamptz, lease_until = NULL
WHERE approval_id = @approval_id AND state IN ('waiting', 'claimed');

-- name: LoseCall :exec
-- LoseCall ends a call that was sent and whose lease has run out.
UPDATE approval_call
SET state = 'unknown', ended_at = @ended_at::timestamptz, lease_until = NULL
WHERE approval_id = @approval_id AND state = 'sent';

-- name: LoseCalls :many
-- LoseCalls ends calls that were sent and whose leases have run out.
UPDATE approval_call
SET state = 'unknown', ended_at = @now::timestamptz, lease_until = NULL
WHERE approval_id IN (
    SELECT lost.approval_id FROM approval_call AS lost
    WHERE lost.state = 'sent' AND lost.lease_until <= @now
    ORDER BY lost.lease_until
    LIMIT @most
    FOR UPDATE SKIP LOCKED
) AND state = 'sent'
RETURNING approval_id;

-- name: Decided :many
-- Decided returns which approvals wait no longer.
SELECT ref FROM approval WHERE ref = ANY(@refs::text[]) AND (status <> 'pending' OR expires_at <= @now::timestamptz);

-- name: CountTokens :one
SELECT count(*) FROM decision_token WHERE approval_id = @approval_id AND approver = @approver;

-- name: CreateToken :exec
INSERT INTO decision_token (token_sha256, approval_id, approver, channel, created_at, expires_at)
VALUES (@token_sha256, @approval_id, @approver, @channel, @created_at, @expires_at);

-- name: TokenApproval :one
SELECT sqlc.embed(approval), sqlc.embed(decision_token)
FROM decision_token
INNER JOIN approval ON approval.id = decision_token.approval_id
WHERE decision_token.token_sha256 = @token_sha256;

-- name: LockTokenApproval :one
-- LockTokenApproval serializes concurrent decisions on one approval.
SELECT sqlc.embed(approval), sqlc.embed(decision_token)
FROM decision_token
INNER JOIN approval ON approval.id = decision_token.approval_id
WHERE decision_token.token_sha256 = @token_sha256
FOR UPDATE OF approval;

-- name: UseToken :exec
UPDATE decision_token SET decision = @decision WHERE token_sha256 = @token_sha256;

-- name: DropTokens :execrows
-- DropTokens deletes tokens that expired before a moment.
DELETE FROM decision_token WHERE token_sha256 IN (
    SELECT old.token_sha256 FROM decision_token AS old WHERE old.expires_at < @before LIMIT @most
);
