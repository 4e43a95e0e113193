-- What failed or expired under the release before 00002, which kept no dead
-- letters: without a row here neither lists nor replays by status would find it.
-- Additive.

-- +goose Up
INSERT INTO dead_letter (organization_id, delivery_id, created_at)
SELECT organization_id, id, created_at FROM deliveries WHERE status IN ('failed', 'expired')
ON CONFLICT DO NOTHING;

-- +goose Down
SELECT 1; -- They are dead letters of the tables as they are.
