-- +goose Up

-- A response that its caller may refer to later, with the input of its turn: sealed
-- (AES-256-GCM) under a key that the database never has. A conversation is the chain
-- of a response's predecessors. Rows are written once, and go when they expire, are
-- deleted by their owner or erased with their organization.
CREATE TABLE response (
    id              text PRIMARY KEY CHECK (id <> ''),
    organization_id text NOT NULL CHECK (organization_id <> ''),
    -- On whose behalf it was made; empty where the caller named nobody.
    owner_id        text NOT NULL,
    -- The response that it continues; empty for the first of a conversation.
    previous_id     text NOT NULL CHECK (previous_id <> id),
    -- The ids of the items of its input and output, by which callers refer to them.
    item_ids        text[] NOT NULL,
    -- The key that it is sealed with, by its name, and its bytes before that.
    key_id          text NOT NULL CHECK (key_id <> ''),
    sealed          bytea NOT NULL,
    size            integer NOT NULL CHECK (size >= 0),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,

    CHECK (expires_at > created_at)
);

CREATE INDEX response_organization ON response (organization_id, created_at);
CREATE INDEX response_items ON response USING gin (item_ids);
CREATE INDEX response_expires ON response (expires_at);

-- +goose Down

DROP TABLE response;
