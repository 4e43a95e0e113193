-- +goose Up

-- The event that a destination took last. It is sent once more to see whether the destination is up, also after a restart
-- and by another replica. Additive.
CREATE TABLE export_last_taken (
    destination     text        PRIMARY KEY,
    -- Kind and base URL of the destination; another account does not recognize the event.
    account         text        NOT NULL,
    -- When the event was first sent.
    sent_at         timestamptz NOT NULL,
    identifier      text        NOT NULL CHECK (identifier <> ''),
    source          text        NOT NULL CHECK (source IN ('counts', 'ledger')),
    organization_id text        NOT NULL,
    metric          text        NOT NULL,
    customer        text        NOT NULL,
    name            text        NOT NULL,
    value           text        NOT NULL,
    occurred_at     timestamptz NOT NULL
) WITH (fillfactor = 50);

-- +goose Down
DROP TABLE export_last_taken;
