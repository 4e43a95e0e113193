-- +goose Up

-- The terms of a key, which the gateway enforces; null is none. The release
-- before reads and writes none of these columns, so that a successor that it
-- makes in a rotation has no terms.
ALTER TABLE api_keys
    ADD COLUMN tokens_per_minute    bigint CHECK (tokens_per_minute BETWEEN 1 AND 1099511627776),
    -- The models that the key may use; null for all.
    ADD COLUMN models               text[] CHECK (cardinality(models) BETWEEN 1 AND 32 AND array_position(models, NULL) IS NULL),
    ADD COLUMN budget_ceiling_cents bigint CHECK (budget_ceiling_cents BETWEEN 1 AND 1000000000000),
    ADD COLUMN budget_period        text CHECK (budget_period IN ('day', 'month', 'total')),
    ADD COLUMN class                text CHECK (class IN ('interactive', 'standard', 'bulk')),
    ADD CONSTRAINT api_keys_budget_is_whole CHECK (num_nulls(budget_ceiling_cents, budget_period) IN (0, 2));

-- +goose Down
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_budget_is_whole,
    DROP COLUMN class, DROP COLUMN budget_period, DROP COLUMN budget_ceiling_cents, DROP COLUMN models, DROP COLUMN tokens_per_minute;
