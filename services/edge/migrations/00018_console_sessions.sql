-- +goose Up

-- A session of an operator in the console. Of its secret, 256 random bits, only the SHA-256 is kept. The digest of
-- the operator's token ends the session with the token. Rows are deleted a day after they were made.
CREATE TABLE console_sessions (
    id             text        PRIMARY KEY,
    session_digest bytea       NOT NULL UNIQUE CHECK (octet_length(session_digest) = 32),
    token_digest   bytea       NOT NULL CHECK (octet_length(token_digest) = 32),
    operator       text        NOT NULL CHECK (operator <> ''),
    created_at     timestamptz NOT NULL,
    idle_at        timestamptz NOT NULL, -- when it ends unless it is used
    ends_at        timestamptz NOT NULL, -- when it ends in any case
    CHECK (created_at <= idle_at AND idle_at <= ends_at)
);

CREATE INDEX console_sessions_by_age ON console_sessions (created_at);

-- A sign-in, and a call that concerns every organization, name none.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_names_organization,
    ADD CONSTRAINT audit_entry_names_organization
        CHECK (organization_id <> '' OR action LIKE 'plan.%' OR action LIKE 'export.%' OR action LIKE 'console.%') NOT VALID;
ALTER TABLE audit_entry VALIDATE CONSTRAINT audit_entry_names_organization;

-- +goose Down
-- Entries are never deleted, so those of the console stay unchecked.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_names_organization,
    ADD CONSTRAINT audit_entry_names_organization CHECK (organization_id <> '' OR action LIKE 'plan.%' OR action LIKE 'export.%') NOT VALID;
DROP TABLE console_sessions;
