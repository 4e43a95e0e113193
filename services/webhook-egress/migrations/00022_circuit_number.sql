-- The flow of an endpoint gets a new circuit when the endpoint's URL gets another scheme, host, port or path, and when the
-- endpoint is resumed. Additive: the previous release knows only each flow's first circuit.

-- +goose Up

-- The number of the flow's circuit. It is part of the name of the circuit's state in Redis.
ALTER TABLE flow ADD COLUMN circuit integer NOT NULL DEFAULT 0;

-- +goose Down

ALTER TABLE flow DROP COLUMN circuit;
