-- Deliveries without an endpoint get a flow for each path, so that one path's failures don't pause other paths. A flow
-- is parked by its own circuit or by its host's. Additive: the previous release parks flows only by the circuits of
-- hosts. It finds only the flows of hosts, because it takes the flows of paths for flows of endpoints.

-- +goose Up

ALTER TABLE flow
    -- The flow's deliveries have no endpoint. endpoint_id is a digest of their path, as a UUID of version 8.
    ADD COLUMN of_path        boolean NOT NULL DEFAULT false,
    -- The flow waits for its host's circuit. Means nothing unless parked_reason is breaker_open.
    ADD COLUMN parked_by_host boolean NOT NULL DEFAULT false;

COMMENT ON COLUMN flow.endpoint_id IS 'its endpoint, or with of_path the digest of its path; null for deliveries with an ordering key and without an endpoint';

-- For counting an organization's paths.
CREATE INDEX flow_of_path ON flow (organization_id) WHERE of_path;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION note_circuit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.circuit_opened_at := CASE WHEN NEW.parked_reason = 'breaker_open' THEN now() END;
    -- The previous release doesn't write this column.
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
