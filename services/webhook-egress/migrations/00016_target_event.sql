-- Organizations are told of circuits of targets that deliveries without an endpoint go to. Additive: the release before
-- tells of none.

-- +goose Up

-- The targets whose circuit is open: what an event of each is recorded once by.
CREATE TABLE target_circuit (
    organization_id text        NOT NULL,
    host            text        NOT NULL,
    port            integer     NOT NULL,
    opened_at       timestamptz NOT NULL DEFAULT now(),
    -- When the circuit opened or was probed last.
    seen_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, host, port)
);

CREATE INDEX target_circuit_seen ON target_circuit (seen_at);

-- Events of targets, until they are fanned out. Apart from operational_event, whose rows the release before takes.
CREATE TABLE target_event (
    target_event_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id text        NOT NULL,
    type            text        NOT NULL CHECK (type IN ('switchyard.target.circuit_opened', 'switchyard.target.circuit_closed')),
    host            text        NOT NULL,
    port            integer     NOT NULL CHECK (port BETWEEN 1 AND 65535),
    opened_at       timestamptz NOT NULL,
    occurred_at     timestamptz NOT NULL DEFAULT now()
);

-- +goose Down
DROP TABLE target_event;
DROP TABLE target_circuit;
