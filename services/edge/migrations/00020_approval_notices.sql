-- +goose Up

-- The cursor of the last event that approvals were followed to; empty for none. The replica that follows them holds its
-- one row.
CREATE TABLE approval_cursor (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    cursor text    NOT NULL
);

INSERT INTO approval_cursor (cursor) VALUES ('');

-- Approvals of the gateway whose approvers are notified, as its events describe them.
CREATE TABLE approval (
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    ref             text        NOT NULL CHECK (ref <> ''),
    group_name      text        NOT NULL CHECK (group_name <> ''),
    proof           text        NOT NULL,
    server          text        NOT NULL,
    tool            text        NOT NULL,
    rule            text        NOT NULL,
    requested_by    text        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('waiting', 'approved', 'denied', 'expired')),
    decided_by      text        NOT NULL DEFAULT '',
    -- When it began to wait.
    requested_at    timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,
    closed_at       timestamptz,
    PRIMARY KEY (organization_id, ref),
    CHECK ((state = 'waiting') = (closed_at IS NULL))
);

CREATE INDEX approval_waiting ON approval (expires_at) WHERE state = 'waiting';
CREATE INDEX approval_expires ON approval (expires_at);

-- Messages to one member, or to one conversation of Slack, about an approval.
CREATE TABLE approval_notice (
    -- It can't be guessed: a button of Slack names the notice by it.
    id              text        PRIMARY KEY CHECK (id <> ''),
    organization_id text        NOT NULL,
    ref             text        NOT NULL,
    step            integer     NOT NULL CHECK (step >= 0),
    channel         text        NOT NULL CHECK (channel IN ('in_app', 'web_push', 'email', 'slack')),
    -- The member; empty for a conversation.
    member          text        NOT NULL,
    conversation    text        NOT NULL,
    state           text        NOT NULL CHECK (state IN ('planned', 'prepared', 'sent', 'closing', 'closed', 'cancelled', 'refused')),
    due_at          timestamptz NOT NULL,
    -- Failures since the state was entered.
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The message with a token in it, until it is sent.
    sealed          bytea,
    notification_id text,
    FOREIGN KEY (organization_id, ref) REFERENCES approval (organization_id, ref) ON DELETE CASCADE,
    UNIQUE (organization_id, ref, step, channel, member),
    CHECK ((member = '') = (conversation <> '')),
    CHECK ((state = 'prepared') = (sealed IS NOT NULL)),
    CHECK ((state IN ('sent', 'closing', 'closed')) = (notification_id IS NOT NULL))
);

CREATE INDEX approval_notice_due ON approval_notice (state, due_at) WHERE state IN ('planned', 'prepared', 'closing');

-- +goose Down

DROP TABLE approval_notice;
DROP TABLE approval;
DROP TABLE approval_cursor;
