-- +goose Up

-- Tokens by which approvers decide. A token itself is never here.
CREATE TABLE decision_token (
    token_sha256 bytea PRIMARY KEY CHECK (octet_length(token_sha256) = 32),
    approval_id  bigint NOT NULL REFERENCES approval (id) ON DELETE CASCADE,
    approver     text NOT NULL CHECK (approver <> ''),
    channel      text NOT NULL CHECK (channel <> ''),
    created_at   timestamptz NOT NULL,
    expires_at   timestamptz NOT NULL,
    -- What was decided by this token; empty before, and where another decision came first.
    decision     text NOT NULL DEFAULT '' CHECK (decision IN ('', 'approve', 'deny'))
);

CREATE INDEX decision_token_approval ON decision_token (approval_id);
CREATE INDEX decision_token_expiry ON decision_token (expires_at);

-- Approvals of calls in advance.
CREATE TABLE standing_approval (
    id                bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ref               text NOT NULL UNIQUE CHECK (ref <> ''),
    organization_id   text NOT NULL CHECK (organization_id <> ''),
    server_id         text NOT NULL CHECK (server_id <> ''),
    tool              text NOT NULL CHECK (tool <> ''),
    definition_digest bytea NOT NULL CHECK (octet_length(definition_digest) = 32),
    -- In CEL.
    expression        text NOT NULL CHECK (expression <> ''),
    uses              integer NOT NULL CHECK (uses > 0),
    used              integer NOT NULL DEFAULT 0 CHECK (used BETWEEN 0 AND uses),
    approval_ref      text NOT NULL,
    created_by        text NOT NULL CHECK (created_by <> ''),
    reason            text NOT NULL,
    created_at        timestamptz NOT NULL,
    expires_at        timestamptz NOT NULL CHECK (expires_at > created_at),
    revoked_by        text NOT NULL DEFAULT '',
    revoked_at        timestamptz,

    CHECK ((revoked_by <> '') = (revoked_at IS NOT NULL))
);

CREATE INDEX standing_approval_organization ON standing_approval (organization_id, id);
CREATE INDEX standing_approval_tool ON standing_approval (organization_id, server_id, tool, id) WHERE revoked_at IS NULL;

-- Decisions by tokens are made by approvers, who are no callers. Rows that are there satisfy the narrower rule before.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_actor_role_check,
    ADD CONSTRAINT audit_entry_actor_role_check CHECK (actor_role IN ('service', 'operator', 'support', 'system', 'approver')) NOT VALID;

-- +goose Down

ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_actor_role_check,
    ADD CONSTRAINT audit_entry_actor_role_check CHECK (actor_role IN ('service', 'operator', 'support', 'system')) NOT VALID;
DROP TABLE standing_approval;
DROP TABLE decision_token;
