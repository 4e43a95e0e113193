-- +goose Up

-- One accepted send. What it said is not here: an inbox record keeps its own
-- text until it is deleted, a channel_send its own work until it has ended.
CREATE TABLE notification (
    id              uuid PRIMARY KEY,
    organization_id text NOT NULL CHECK (organization_id <> ''),
    created_at      timestamptz NOT NULL DEFAULT now(),
    -- When the log of the send last changed.
    updated_at      timestamptz NOT NULL DEFAULT now()
);

-- First use of an idempotency key. It is written in the transaction of the send
-- it stands for, so a second caller waits for that transaction to end and then
-- sees either its result or a free key.
CREATE TABLE idempotency_key (
    organization_id text NOT NULL,
    key             text NOT NULL CHECK (key <> ''),
    -- SHA-256 of the request.
    fingerprint     bytea NOT NULL CHECK (octet_length(fingerprint) = 32),
    notification_id uuid NOT NULL REFERENCES notification (id) ON DELETE CASCADE,
    created_at      timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, key)
);

CREATE INDEX idempotency_key_notification ON idempotency_key (notification_id);

-- The outbox, and the log of each channel of a send. A row that has not ended is
-- work that a dispatcher takes when it is due.
CREATE TABLE channel_send (
    notification_id uuid NOT NULL REFERENCES notification (id) ON DELETE CASCADE,
    channel         text NOT NULL CHECK (channel IN ('slack', 'email', 'webhook', 'in_app', 'web_push')),
    -- Place in the request's list of channels.
    position        smallint NOT NULL,
    status          text NOT NULL CHECK (status IN ('queued', 'sending', 'retrying', 'delivered', 'failed')),
    -- What the channel's sender needs to send, in its own encoding. It may hold
    -- a credential, which the sender seals, and is dropped when the channel ends.
    work            bytea,
    -- When a dispatcher may take the row: at the planned attempt, or, while one
    -- sends, at the end of its lease.
    due_at          timestamptz,
    -- Grows with each lease: only the latest holder may settle.
    fence           bigint NOT NULL DEFAULT 0,
    attempts        integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- Outcome of the last attempt.
    outcome         text CHECK (outcome IN ('ok', 'gone', 'retry_after', 'permanent', 'auth')),
    last_error      text,
    targeted_count  integer NOT NULL DEFAULT 1 CHECK (targeted_count >= 0),
    delivered_count integer NOT NULL DEFAULT 0 CHECK (delivered_count >= 0),
    failed_count    integer NOT NULL DEFAULT 0 CHECK (failed_count >= 0),
    removed_count   integer NOT NULL DEFAULT 0 CHECK (removed_count >= 0),
    truncated       boolean NOT NULL DEFAULT false,
    -- The delivery at webhook egress that carries it.
    delivery_id     text,
    finished_at     timestamptz,
    PRIMARY KEY (notification_id, channel),
    UNIQUE (notification_id, position),
    CONSTRAINT ended_or_due CHECK ((status IN ('delivered', 'failed')) = (due_at IS NULL)),
    CONSTRAINT ended_or_unfinished CHECK ((status IN ('delivered', 'failed')) = (finished_at IS NOT NULL)),
    CONSTRAINT ended_without_work CHECK ((status IN ('delivered', 'failed')) = (work IS NULL)),
    CONSTRAINT queued_or_attempted CHECK (status <> 'queued' OR (attempts = 0 AND outcome IS NULL)),
    CONSTRAINT delivered_to_someone CHECK (status <> 'delivered' OR delivered_count > 0),
    CONSTRAINT recipients_add_up CHECK (delivered_count + failed_count <= targeted_count)
);

-- What the dispatcher reads: rows that have not ended only.
CREATE INDEX channel_send_due ON channel_send (due_at) WHERE due_at IS NOT NULL;

-- One attempt to reach one recipient.
CREATE TABLE attempt (
    id                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id     uuid NOT NULL,
    channel             text NOT NULL,
    -- web_push: the stored subscription. No reference: the log outlives it.
    sub_id              uuid,
    number              integer NOT NULL CHECK (number > 0),
    outcome             text NOT NULL CHECK (outcome IN ('ok', 'gone', 'retry_after', 'permanent', 'auth')),
    response_code       integer,
    error               text,
    retry_after_seconds double precision CHECK (retry_after_seconds >= 0),
    started_at          timestamptz NOT NULL,
    duration_ms         double precision NOT NULL CHECK (duration_ms >= 0),
    FOREIGN KEY (notification_id, channel) REFERENCES channel_send ON DELETE CASCADE,
    CONSTRAINT ok_without_error CHECK (outcome <> 'ok' OR error IS NULL)
);

CREATE INDEX attempt_of_notification ON attempt (notification_id, id);

-- The unread count of each inbox that ever got a record. Its row is the inbox's
-- lock: whoever changes records of an inbox takes it first, so changes of one
-- inbox are in line and the count is exact.
CREATE TABLE inbox_counter (
    organization_id text NOT NULL CHECK (organization_id <> ''),
    -- Empty: the notices to the whole organization.
    user_id         text NOT NULL,
    unread          integer NOT NULL CHECK (unread >= 0),
    -- Grows with each change of the inbox, in the order of the commits.
    version         bigint NOT NULL CHECK (version > 0),
    PRIMARY KEY (organization_id, user_id)
);

CREATE TABLE inbox_record (
    id              uuid PRIMARY KEY,
    organization_id text NOT NULL,
    user_id         text NOT NULL,
    -- The inbox's version that the record made, hence its place in the list. No
    -- record that commits later can come below one that a reader has seen.
    seq             bigint NOT NULL CHECK (seq > 0),
    -- The send. No reference: a record outlives the log.
    notification_id uuid NOT NULL,
    subject         text NOT NULL,
    message         text NOT NULL CHECK (message <> ''),
    url             text NOT NULL,
    -- JSON object, as it arrived.
    data            text,
    read_at         timestamptz,
    created_at      timestamptz NOT NULL,
    FOREIGN KEY (organization_id, user_id) REFERENCES inbox_counter,
    UNIQUE (organization_id, user_id, seq)
);

CREATE UNIQUE INDEX inbox_record_unread ON inbox_record (organization_id, user_id, seq) WHERE read_at IS NULL;

-- +goose Down

DROP TABLE inbox_record, inbox_counter, attempt, channel_send, idempotency_key, notification;
