-- name: OrganizationsSince :many
-- OrganizationsSince returns the settings of organizations with versions above one.
SELECT organization_id, suspended, suspended_at, suspended_by, status_reason, status_changed_at,
    budget_ceiling_cents, budget_period, version, budget_thresholds
FROM organization WHERE version > @since ORDER BY version;

-- name: GetOrganization :one
SELECT organization_id, suspended, suspended_at, suspended_by, status_reason, status_changed_at,
    budget_ceiling_cents, budget_period, version, budget_thresholds
FROM organization WHERE organization_id = @organization_id;

-- name: PutOrganizationStatus :exec
INSERT INTO organization (organization_id, suspended, suspended_at, suspended_by, status_reason, status_changed_at, version)
VALUES (@organization_id, @suspended, @suspended_at, @suspended_by, @status_reason, @status_changed_at, @version)
ON CONFLICT (organization_id) DO UPDATE SET suspended = excluded.suspended, suspended_at = excluded.suspended_at,
    suspended_by = excluded.suspended_by, status_reason = excluded.status_reason,
    status_changed_at = excluded.status_changed_at, version = excluded.version;

-- name: PutOrganizationBudget :exec
INSERT INTO organization (organization_id, budget_ceiling_cents, budget_period, budget_thresholds, version)
VALUES (@organization_id, @budget_ceiling_cents, @budget_period, @budget_thresholds, @version)
ON CONFLICT (organization_id) DO UPDATE SET budget_ceiling_cents = excluded.budget_ceiling_cents,
    budget_period = excluded.budget_period, budget_thresholds = excluded.budget_thresholds, version = excluded.version;

-- name: OrganizationSpend :one
-- OrganizationSpend returns the spend since a day, the reserved amount, and the spend so far of sessions that are in
-- flight or were called since a moment. Amounts are in cents.
WITH active AS (
    SELECT DISTINCT s.run_id FROM (
        SELECT a.run_id FROM spend_run AS a WHERE a.organization_id = @organization_id AND a.last_at > @active_since::timestamptz
        UNION ALL
        SELECT f.run_id FROM replica_session AS f WHERE f.organization_id = @organization_id AND f.run_id <> ''
    ) AS s
)
SELECT
    (SELECT coalesce(sum(d.cost_pico_usd), 0) / 1e10 FROM spend_day AS d
        WHERE d.organization_id = @organization_id AND d.day >= @since::date)::double precision AS spent_cents,
    (SELECT coalesce(sum(b.amount_pico_usd), 0) / 1e10 FROM budget_reservation AS b
        WHERE b.organization_id = @organization_id)::double precision AS reserved_cents,
    (SELECT count(*) FROM active)::integer AS active_sessions,
    (SELECT coalesce(sum(r.cost_pico_usd), 0) / 1e10 FROM spend_run AS r
        WHERE r.organization_id = @organization_id AND r.run_id IN (SELECT active.run_id FROM active))::double precision AS active_cents;
