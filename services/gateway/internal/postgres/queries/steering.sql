-- name: RoutingOverrides :many
SELECT kind, active, provider, model, percentage, sticky_by, set_at, set_by, reason, revision, version
FROM routing_override;

-- name: GetRoutingOverride :one
SELECT kind, active, provider, model, percentage, sticky_by, set_at, set_by, reason, revision, version
FROM routing_override WHERE kind = @kind FOR UPDATE;

-- name: PutRoutingOverride :exec
UPDATE routing_override SET active = @active, provider = @provider, model = @model, percentage = @percentage,
    sticky_by = @sticky_by, set_at = @set_at, set_by = @set_by, reason = @reason, revision = @revision, version = @version
WHERE kind = @kind;

-- name: AddToCanaryArm :exec
-- AddToCanaryArm also accepts counts of a replaced canary, as long as its sums are kept.
INSERT INTO canary_arm AS a (revision, arm, requests, failed, failed_over, latency_us)
VALUES (@revision, @arm, @requests, @failed, @failed_over, @latency_us)
ON CONFLICT (revision, arm) DO UPDATE SET requests = a.requests + excluded.requests, failed = a.failed + excluded.failed,
    failed_over = a.failed_over + excluded.failed_over, latency_us = a.latency_us + excluded.latency_us;

-- name: CanaryArms :many
SELECT arm, requests, failed, failed_over, latency_us FROM canary_arm WHERE revision = @revision;

-- name: ForgetCanaryArms :exec
DELETE FROM canary_arm WHERE revision < @before;
