-- +goose Up

-- What a unit beyond a metered limit costs, 0 for nothing that is known here. A plan that the release before sets loses
-- its prices.
ALTER TABLE plan_limits
    ADD COLUMN price_pico_usd bigint NOT NULL DEFAULT 0 CHECK (price_pico_usd BETWEEN 0 AND 1000000000000000),
    ADD CONSTRAINT plan_limits_price_of_overage CHECK (price_pico_usd = 0 OR kind = 'metered');

-- +goose Down
ALTER TABLE plan_limits DROP COLUMN price_pico_usd;
