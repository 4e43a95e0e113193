-- Deliveries without an endpoint have a flow for each path, so that one path's failures pause no other, and a flow is
-- parked by its host's circuit or by its own. Additive: the release before parks flows by the circuits of hosts alone.
-- It finds the flows of hosts only, because it takes those of paths for flows of endpoints.

-- +goose Up

ALTER TABLE flow
    -- Its deliveries have no endpoint, and endpoint_id identifies their path: a digest, as a UUID of version 8.
    ADD COLUMN of_path        boolean NOT NULL DEFAULT false,
    -- It waits for its host's circuit. Means nothing unless parked_reason is breaker_open.
    ADD COLUMN parked_by_host boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN flow.endpoint_id IS 'its endpoint, or with of_path the digest of its path; null for deliveries with an ordering key and without an endpoint';

-- How many paths an organization has.
CREATE INDEX flow_of_path ON flow (organization_id) WHERE of_path;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_circuit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.circuit_opened_at := CASE WHEN NEW.parked_reason = 'breaker_open' THEN now() END;
    -- The release before leaves the column as it was.
    NEW.parked_by_host := NEW.parked_by_host AND NEW.parked_reason IS NOT DISTINCT FROM 'breaker_open';
    RETURN NEW;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_circuit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.circuit_opened_at := CASE WHEN NEW.parked_reason = 'breaker_open' THEN now() END;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

DROP INDEX flow_of_path;
ALTER TABLE flow DROP COLUMN of_path, DROP COLUMN parked_by_host;
