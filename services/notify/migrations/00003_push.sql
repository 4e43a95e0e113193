-- +goose Up

-- The devices that can be pushed to. Endpoint and keys are capabilities: whoever
-- has them can push to the device or read its pushes. They are only here sealed.
CREATE TABLE push_subscription (
    sub_id            uuid PRIMARY KEY,
    organization_id   text NOT NULL CHECK (organization_id <> ''),
    -- Empty: a device of nobody in particular.
    user_id           text NOT NULL,
    -- Empty: of the whole organization.
    site_id           text NOT NULL,
    platform          text NOT NULL CHECK (platform = 'web'),
    -- Its push service: scheme, host and port.
    origin            text NOT NULL,
    -- SHA-256 of the endpoint, which makes it one device.
    endpoint_digest   bytea NOT NULL CHECK (octet_length(endpoint_digest) = 32),
    -- Endpoint, p256dh and auth, bound to sub_id.
    sealed            bytea NOT NULL,
    -- The VAPID key that its browser subscribed with.
    vapid_key_id      text NOT NULL,
    status            text NOT NULL DEFAULT 'active' CHECK (status IN ('active', 'quarantined')),
    -- Grows with each registration: what an attempt learnt of the one before
    -- doesn't touch the device as it is now.
    revision          bigint NOT NULL DEFAULT 1,
    expires_at        timestamptz,
    -- To the minute.
    last_delivered_at timestamptz,
    created_at        timestamptz NOT NULL DEFAULT now(),
    updated_at        timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, endpoint_digest)
);

-- Lists, broadcasts, and the devices of a user. sub_id has the order of time.
CREATE INDEX push_subscription_of_organization ON push_subscription (organization_id, sub_id);
CREATE INDEX push_subscription_of_user ON push_subscription (organization_id, user_id, sub_id);

-- A broadcast whose devices are still being added to recipient, page by page. A
-- page and its cursor are one transaction, under the row's lock.
CREATE TABLE push_expansion (
    notification_id uuid PRIMARY KEY REFERENCES notification (id) ON DELETE CASCADE,
    organization_id text NOT NULL,
    -- Empty: every site.
    site_id         text NOT NULL,
    -- The last device added; the nil id before the first.
    after_sub       uuid NOT NULL DEFAULT '00000000-0000-0000-0000-000000000000',
    -- Devices that registered after it was sent are left out.
    created_at      timestamptz NOT NULL DEFAULT now()
);

-- What was pushed, for display: one row for each user told, or for a broadcast.
-- It outlives the log of the send.
CREATE TABLE push_history (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    notification_id uuid NOT NULL UNIQUE,
    organization_id text NOT NULL CHECK (organization_id <> ''),
    -- Empty for a broadcast and for a one-off subscription.
    user_id         text NOT NULL,
    site_id         text NOT NULL,
    title           text NOT NULL,
    body            text NOT NULL,
    url             text NOT NULL,
    -- JSON object, as it arrived.
    data            text,
    broadcast       boolean NOT NULL,
    -- How the send ended; NULL while it has not, and then the row isn't shown.
    status          text CHECK (status IN ('delivered', 'failed', 'no_devices')),
    delivered_count integer NOT NULL DEFAULT 0 CHECK (delivered_count >= 0),
    created_at      timestamptz NOT NULL DEFAULT now(),
    CONSTRAINT broadcast_has_no_count CHECK (NOT broadcast OR delivered_count = 0)
);

CREATE INDEX push_history_of_organization ON push_history (organization_id, id);
CREATE INDEX push_history_of_user ON push_history (organization_id, user_id, id);
CREATE INDEX push_history_age ON push_history (created_at);

-- +goose Down

DROP TABLE push_history, push_expansion, push_subscription;
