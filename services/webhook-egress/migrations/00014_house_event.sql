-- The events of Switchyard's own services, with those of this one, for 30 days: what repeats are known by, and what
-- readers follow. Additive.

-- +goose Up
CREATE TABLE house_event (
    -- Order of the commits: rows are inserted under an advisory lock that is held until the end of the transaction.
    sequence        bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    event_id        text        NOT NULL CHECK (event_id <> ''),
    -- The owner concerned; empty for none.
    owner_id        text        NOT NULL,
    cloud_event     bytea       NOT NULL CHECK (octet_length(cloud_event) > 0),
    recorded_at     timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, event_id)
);

CREATE INDEX house_event_recorded ON house_event (recorded_at);
CREATE INDEX house_event_organization ON house_event (organization_id, sequence);

-- +goose Down
DROP TABLE house_event;
