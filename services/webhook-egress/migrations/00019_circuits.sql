-- When the circuit of a flow's target opened, and which are open, for lists. The trigger keeps the time, whichever release
-- moves the flow. Additive.

-- +goose Up

-- Null while it is closed, and of circuits that opened before.
ALTER TABLE flow ADD COLUMN circuit_opened_at timestamptz;

-- parked_reason is in the condition of flow_deleted already, so that this index costs the updates of flows nothing more.
CREATE INDEX flow_circuit ON flow (organization_id, host, port) WHERE parked_reason = 'breaker_open';

-- +goose StatementBegin
CREATE FUNCTION note_circuit() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.circuit_opened_at := CASE WHEN NEW.parked_reason = 'breaker_open' THEN now() END;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER flow_circuit_moved BEFORE UPDATE OF parked_reason ON flow
    FOR EACH ROW WHEN ((NEW.parked_reason IS NOT DISTINCT FROM 'breaker_open') <> (OLD.parked_reason IS NOT DISTINCT FROM 'breaker_open'))
    EXECUTE FUNCTION note_circuit();

-- +goose Down

DROP TRIGGER flow_circuit_moved ON flow;
DROP FUNCTION note_circuit();
DROP INDEX flow_circuit;
ALTER TABLE flow DROP COLUMN circuit_opened_at;
