-- +goose Up

-- What tool servers say of their tools, with people's reviews. Of each tool there are the present definition, the one
-- that was approved last, and some that were rejected. A definition that goes without a review goes with its row.
CREATE TABLE tool_definition (
    organization_id text NOT NULL,
    server_id       text COLLATE "C" NOT NULL,
    -- The server's own name.
    tool            text COLLATE "C" NOT NULL CHECK (tool <> ''),
    -- SHA-256 of server, tool and definition in its canonical form.
    digest          bytea NOT NULL CHECK (octet_length(digest) = 32),
    -- JSON as the server sent it.
    definition      text NOT NULL CHECK (definition <> ''),
    status          text NOT NULL CHECK (status IN ('pending', 'approved', 'rejected')),
    -- Whether the latest listing holds it. gone_at is when a listing first was without it.
    present         boolean NOT NULL,
    first_seen_at   timestamptz NOT NULL,
    gone_at         timestamptz,
    reviewed_by     text NOT NULL DEFAULT '',
    review_reason   text NOT NULL DEFAULT '',
    reviewed_at     timestamptz,

    PRIMARY KEY (organization_id, server_id, tool, digest),
    FOREIGN KEY (organization_id, server_id) REFERENCES tool_server ON DELETE CASCADE,
    CHECK (status <> 'pending' OR present),
    CHECK (present = (gone_at IS NULL)),
    CHECK ((status = 'pending') = (reviewed_at IS NULL) AND (status = 'pending') = (reviewed_by = ''))
);

CREATE UNIQUE INDEX tool_definition_present ON tool_definition (organization_id, server_id, tool) WHERE present;
CREATE UNIQUE INDEX tool_definition_approved ON tool_definition (organization_id, server_id, tool) WHERE status = 'approved';

-- The state of each server's listing, and which replica makes the next one.
CREATE TABLE tool_listing (
    organization_id  text NOT NULL,
    server_id        text COLLATE "C" NOT NULL,
    -- Of all names and digests of the latest listing; null before the first.
    digest           bytea CHECK (octet_length(digest) = 32),
    protocol_version text NOT NULL,
    listed_at        timestamptz,
    -- The failures since the last success.
    failures         integer NOT NULL CHECK (failures >= 0),
    error_class      text NOT NULL,
    error_text       text NOT NULL,
    error_at         timestamptz,
    -- When it is due next; infinity until the server is used. lease counts the claims.
    due_at           timestamptz NOT NULL,
    held_until       timestamptz NOT NULL,
    lease            bigint NOT NULL CHECK (lease >= 0),

    PRIMARY KEY (organization_id, server_id),
    FOREIGN KEY (organization_id, server_id) REFERENCES tool_server ON DELETE CASCADE,
    CHECK ((digest IS NULL) = (listed_at IS NULL)),
    CHECK ((failures = 0) = (error_class = '') AND (failures = 0) = (error_at IS NULL) AND (failures > 0 OR error_text = ''))
);

CREATE INDEX tool_listing_due ON tool_listing (due_at);

-- +goose Down

DROP TABLE tool_listing;
DROP TABLE tool_definition;
