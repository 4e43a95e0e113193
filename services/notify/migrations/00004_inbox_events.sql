-- +goose Up

-- Each change of an inbox, numbered by the version that it made. The numbers of
-- an inbox have no gap: a reader that finds one knows that it missed a change
-- (of the release before, or purged).
CREATE TABLE inbox_event (
    organization_id text NOT NULL,
    user_id         text NOT NULL,
    seq             bigint NOT NULL CHECK (seq > 0),
    event           text NOT NULL CHECK (event IN ('created', 'read', 'deleted', 'read_all')),
    -- The record changed; NULL for read_all. No reference: the event outlives it.
    record_id       uuid,
    -- Unread records of the inbox after the change.
    unread          integer NOT NULL CHECK (unread >= 0),
    occurred_at     timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id, seq),
    CONSTRAINT about_a_record CHECK ((event = 'read_all') = (record_id IS NULL))
);

CREATE INDEX inbox_event_age ON inbox_event (occurred_at);

-- +goose Down

DROP TABLE inbox_event;
