-- How often in a row a delivery's replica has ended, or its lease run out, before a
-- result was stored: one that ends processes may not be taken over for ever. Additive.

-- +goose Up
ALTER TABLE delivery_queue ADD COLUMN takeovers integer NOT NULL DEFAULT 0;

-- +goose Down
ALTER TABLE delivery_queue DROP COLUMN takeovers;
