-- +goose Up

-- In the order in which the release before writes them, or the two would wait for each other.
LOCK TABLE notification, idempotency_key, channel_send, attempt IN ACCESS EXCLUSIVE MODE;

-- One recipient of one channel: the address of an email, the URL of a webhook or
-- of Slack, one device of web push. It is both the queue and the log of it: a
-- row that has not ended is due at some time. in_app has none, the commit
-- delivers it.
--
-- Web push adds a row for each device of a user in the transaction that accepts
-- (INSERT ... SELECT from its subscriptions), and for a broadcast page by page
-- while channel_send.expanding. channel_send.targeted_count is how many rows
-- there are, and whoever adds rows adds them there in the same transaction.
CREATE TABLE recipient (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id uuid NOT NULL,
    channel         text NOT NULL CHECK (channel IN ('slack', 'email', 'webhook', 'web_push')),
    -- web_push: the stored subscription, NULL for a one-off one. No reference:
    -- the log outlives it.
    sub_id          uuid,
    -- Where it goes, for the breaker: scheme, host and port, never a path.
    destination     text NOT NULL,
    -- What shares one rate: a digest of the Slack URL. NULL: no rate.
    lane            text,
    status          text NOT NULL DEFAULT 'queued' CHECK (status IN ('queued', 'sending', 'retrying', 'delivered', 'failed')),
    -- When a dispatcher may take the row: at the planned attempt, or, while one
    -- sends, at the end of its lease. NULL once ended.
    due_at          timestamptz DEFAULT now(),
    -- The lane's rate let it go at due_at already.
    granted         boolean NOT NULL DEFAULT false,
    -- Grows with each lease: only the latest holder may settle.
    fence           bigint NOT NULL DEFAULT 0,
    attempts        integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- An attempt's answer was lost, so a further one may be a duplicate.
    doubtful        boolean NOT NULL DEFAULT false,
    -- The delivery of webhook egress that carries it.
    delivery_id     text,
    FOREIGN KEY (notification_id, channel) REFERENCES channel_send ON DELETE CASCADE,
    CONSTRAINT recipient_ended_or_due CHECK ((status IN ('delivered', 'failed')) = (due_at IS NULL))
);

-- What a dispatcher reads: rows of its channel that have not ended only.
CREATE INDEX recipient_due ON recipient (channel, due_at) WHERE due_at IS NOT NULL;

CREATE INDEX recipient_of_send ON recipient (notification_id, channel);

-- A device is told once, also when a broadcast's page is done again.
CREATE UNIQUE INDEX recipient_device ON recipient (notification_id, sub_id) WHERE sub_id IS NOT NULL;

-- channel_send keeps what its recipients share: the work and the sums. What is
-- due is due by recipient from now on, so its own due_at and fence are not used
-- any more. Rules are only loosened, or about rows that the release before does
-- not write.
ALTER TABLE channel_send
    DROP CONSTRAINT ended_or_due,
    DROP CONSTRAINT channel_send_outcome_check,
    ADD CONSTRAINT channel_send_outcome_check CHECK (outcome IN ('ok', 'gone', 'retry_after', 'permanent', 'auth', 'unknown')),
    ADD CONSTRAINT ended_not_due CHECK (status NOT IN ('delivered', 'failed') OR due_at IS NULL),
    -- After this moment no attempt begins.
    ADD COLUMN deadline_at timestamptz,
    ADD CONSTRAINT open_until_a_deadline CHECK (status IN ('delivered', 'failed') OR deadline_at IS NOT NULL),
    -- Recipients are still being added: it does not end before that has.
    ADD COLUMN expanding boolean NOT NULL DEFAULT false,
    ADD CONSTRAINT ended_expanding CHECK (NOT expanding OR status NOT IN ('delivered', 'failed')),
    -- An attempt was made after one whose answer was lost.
    ADD COLUMN possibly_duplicated boolean NOT NULL DEFAULT false;

ALTER TABLE attempt
    DROP CONSTRAINT attempt_outcome_check,
    ADD CONSTRAINT attempt_outcome_check CHECK (outcome IN ('ok', 'gone', 'retry_after', 'permanent', 'auth', 'unknown')),
    -- What the other side said, shortened, secrets left out.
    ADD COLUMN detail text;

-- What upkeep reads: keys and logs that are old.
CREATE INDEX idempotency_key_age ON idempotency_key (created_at);
CREATE INDEX notification_age ON notification (created_at);

-- +goose Down

DROP INDEX notification_age, idempotency_key_age;
ALTER TABLE attempt DROP COLUMN detail;
ALTER TABLE channel_send DROP COLUMN possibly_duplicated, DROP COLUMN expanding, DROP COLUMN deadline_at, DROP CONSTRAINT ended_not_due;
DROP TABLE recipient;
