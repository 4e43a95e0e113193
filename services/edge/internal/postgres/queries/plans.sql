-- name: NextPlanPosition :one
UPDATE plan_feed SET position = position + 1 RETURNING position;

-- name: PlanPosition :one
SELECT position FROM plan_feed;

-- name: ListPlans :many
SELECT name, description, prepaid, created_at, updated_at FROM plans ORDER BY name;

-- name: ListPlanLimits :many
SELECT plan, meter, period, kind, amount, price_pico_usd FROM plan_limits ORDER BY plan, meter, period, kind;

-- name: CountPlans :one
SELECT count(*) FROM plans WHERE name <> @name;

-- name: SetPlan :one
INSERT INTO plans (name, description, prepaid, created_at, updated_at) VALUES (@name, @description, @prepaid, @updated_at, @updated_at)
ON CONFLICT (name) DO UPDATE SET description = excluded.description, prepaid = excluded.prepaid, updated_at = excluded.updated_at
RETURNING created_at;

-- name: ClearPlanLimits :exec
DELETE FROM plan_limits WHERE plan = @plan;

-- name: AddPlanLimits :exec
INSERT INTO plan_limits (plan, meter, period, kind, amount, price_pico_usd)
SELECT @plan, unnest(@meters::text[]), unnest(@periods::text[]), unnest(@kinds::text[]), unnest(@amounts::bigint[]), unnest(@prices::bigint[]);

-- name: LockPlan :one
SELECT name FROM plans WHERE name = @name FOR UPDATE;

-- name: ReleaseRevokedKeys :exec
UPDATE api_keys SET plan = NULL WHERE plan = @plan::text AND revoked_at IS NOT NULL;

-- name: CountPlanUsers :one
SELECT (SELECT count(*) FROM api_keys WHERE api_keys.plan = @plan::text)::bigint AS keys,
    (SELECT count(*) FROM organization_plans WHERE organization_plans.plan = @plan::text)::bigint AS organizations;

-- name: DeletePlan :exec
DELETE FROM plans WHERE name = @name;

-- name: OrganizationPlan :one
SELECT plan FROM organization_plans WHERE organization_id = @organization_id;

-- name: SetOrganizationPlan :exec
INSERT INTO organization_plans (organization_id, plan, updated_at) VALUES (@organization_id, @plan, @updated_at)
ON CONFLICT (organization_id) DO UPDATE SET plan = excluded.plan, updated_at = excluded.updated_at;

-- name: RemoveOrganizationPlan :exec
DELETE FROM organization_plans WHERE organization_id = @organization_id;
