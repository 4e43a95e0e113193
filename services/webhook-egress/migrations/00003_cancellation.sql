-- Endpoints that were deleted while much was queued for them: what is left to
-- cancel is found again after a restart. Additive.

-- +goose Up
CREATE INDEX flow_deleted ON flow (flow_id) WHERE parked_reason = 'endpoint_deleted';

-- +goose Down
DROP INDEX flow_deleted;
