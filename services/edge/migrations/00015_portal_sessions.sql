-- +goose Up

-- A link to the portal, and the session that it opens. Neither secret is kept: only
-- the SHA-256 of each, which are 256 random bits. The first use of a link gives the
-- row its session; rows are deleted a day after they were made.
CREATE TABLE portal_sessions (
    id              text        PRIMARY KEY,
    link_digest     bytea       NOT NULL UNIQUE CHECK (octet_length(link_digest) = 32),
    session_digest  bytea       UNIQUE CHECK (octet_length(session_digest) = 32),
    organization_id text        NOT NULL CHECK (length(organization_id) BETWEEN 1 AND 256),
    owner_id        text        NOT NULL CHECK (length(owner_id) <= 256),
    user_id         text        NOT NULL CHECK (length(user_id) <= 256),
    scopes          text[]      NOT NULL CHECK (cardinality(scopes) BETWEEN 1 AND 64 AND array_position(scopes, NULL) IS NULL),
    return_url      text        NOT NULL CHECK (length(return_url) <= 2048),
    created_by      text        NOT NULL,
    created_at      timestamptz NOT NULL,
    link_expires_at timestamptz NOT NULL CHECK (link_expires_at > created_at),
    expires_at      timestamptz, -- of the session
    CHECK ((session_digest IS NULL) = (expires_at IS NULL))
);

CREATE INDEX portal_sessions_by_age ON portal_sessions (created_at);

-- +goose Down
DROP TABLE portal_sessions;
