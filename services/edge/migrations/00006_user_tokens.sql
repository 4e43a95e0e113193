-- +goose Up

-- What the replicas that serve need to check tokens of end users. One row, the
-- number of the last change of any of the tables below: its lock keeps changes in
-- order, and a reader that finds it unchanged has missed none.
CREATE TABLE token_feed (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL CHECK (position >= 0)
);
INSERT INTO token_feed (position) VALUES (0);

-- The key pairs that sign tokens (Ed25519, RFC 8032). The newest whose time has
-- come signs.
CREATE TABLE signing_keys (
    id          text        PRIMARY KEY CHECK (id LIKE 'sig\_%'),
    public_key  bytea       NOT NULL UNIQUE CHECK (octet_length(public_key) = 32),
    -- The seed, sealed under a key that is in no database.
    sealed_seed bytea       NOT NULL,
    signs_from  timestamptz NOT NULL UNIQUE
);

-- Tokens of a user, or of all users where it is empty, that were issued before
-- are refused: a token has the feed's position of its time. A row is of no use
-- once those tokens have expired.
CREATE TABLE token_revocations (
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    user_id         text        NOT NULL,
    position        bigint      NOT NULL,
    revoked_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, user_id)
);

-- The web origins whose pages may call with tokens of an organization.
CREATE TABLE organization_origins (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    origins         text[]      NOT NULL CHECK (cardinality(origins) BETWEEN 1 AND 50 AND array_position(origins, NULL) IS NULL),
    updated_at      timestamptz NOT NULL
);

-- +goose Down
DROP TABLE organization_origins, token_revocations, signing_keys, token_feed;
