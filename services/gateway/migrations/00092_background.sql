-- +goose Up

-- A response that is being made in the background: its request, sealed as the response is, and who makes it. The row goes
-- when the response has come to its end, so that the one statement which removes it decides what that end is.
CREATE TABLE background (
    response_id     text PRIMARY KEY REFERENCES response ON DELETE CASCADE,
    organization_id text NOT NULL CHECK (organization_id <> ''),
    owner_id        text NOT NULL,
    state           text NOT NULL CHECK (state IN ('queued', 'in_progress')),
    -- Whether its events are kept, so that they can be read again.
    streamed        boolean NOT NULL,
    key_id          text NOT NULL CHECK (key_id <> ''),
    sealed          bytea NOT NULL,
    -- How often it was begun.
    attempts        integer NOT NULL CHECK (attempts >= 0),
    -- The replica that makes it, empty while it is queued, and until when no other may.
    holder          text NOT NULL,
    held_until      timestamptz NOT NULL,
    created_at      timestamptz NOT NULL,

    CHECK ((state = 'in_progress') = (holder <> ''))
);

CREATE INDEX background_created ON background (created_at);
CREATE INDEX background_organization ON background (organization_id);
CREATE INDEX background_holder ON background (holder) WHERE holder <> '';

-- Some consecutive events of a response that is made in the background, sealed. Rows are written once and go with their
-- response.
CREATE TABLE response_event (
    response_id  text NOT NULL REFERENCES response ON DELETE CASCADE,
    first_number integer NOT NULL CHECK (first_number >= 0),
    last_number  integer NOT NULL,
    key_id       text NOT NULL CHECK (key_id <> ''),
    sealed       bytea NOT NULL,

    PRIMARY KEY (response_id, first_number),
    CHECK (last_number >= first_number)
);

-- +goose Down

DROP TABLE response_event;
DROP TABLE background;
