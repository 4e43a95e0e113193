-- +goose Up

-- How far organizations trust MCP servers: a row for each assignment, with its
-- review. The present one of a server is that of the highest version.
CREATE TABLE trust_record (
    organization_id text NOT NULL CHECK (organization_id <> ''),
    server_id       text NOT NULL CHECK (server_id <> ''),
    version         integer NOT NULL CHECK (version > 0),
    present         boolean NOT NULL DEFAULT true,
    level           text NOT NULL CHECK (level IN ('UNTRUSTED', 'COMMUNITY', 'VERIFIED', 'FIRST_PARTY')),
    -- The level in force while this row is the present one.
    effective_level text NOT NULL CHECK (effective_level IN ('UNTRUSTED', 'COMMUNITY', 'VERIFIED', 'FIRST_PARTY')),
    review_status   text NOT NULL CHECK (review_status IN ('not_required', 'pending', 'approved', 'rejected')),
    assigned_by     text NOT NULL CHECK (assigned_by <> ''),
    assigned_at     timestamptz NOT NULL,
    assign_reason   text NOT NULL,
    reviewed_by     text NOT NULL DEFAULT '',
    reviewed_at     timestamptz,
    review_reason   text NOT NULL DEFAULT '',

    PRIMARY KEY (organization_id, server_id, version),
    -- Only what needs a review has one, and only by another principal.
    CHECK ((level IN ('VERIFIED', 'FIRST_PARTY')) = (review_status <> 'not_required')),
    CHECK ((review_status IN ('approved', 'rejected')) = (reviewed_by <> '' AND reviewed_at IS NOT NULL)),
    CHECK (reviewed_by <> assigned_by),
    CHECK (review_status NOT IN ('not_required', 'approved') OR effective_level = level)
);

CREATE UNIQUE INDEX trust_record_present ON trust_record (organization_id, server_id) WHERE present;

-- +goose Down

DROP TABLE trust_record;
