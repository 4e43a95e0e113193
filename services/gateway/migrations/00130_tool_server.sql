-- +goose Up

-- The servers of the Model Context Protocol that organizations call through the gateway. A secret is never here: it is
-- named by a reference, or sealed to a key that the database doesn't have. A removed row stays for some days, without
-- either, so that every replica sees that it is gone.
CREATE TABLE tool_server (
    -- Empty for a server of all organizations.
    organization_id text NOT NULL,
    server_id       text COLLATE "C" NOT NULL CHECK (server_id ~ '^[A-Za-z0-9][A-Za-z0-9_.:@-]{0,127}$'),
    status          text NOT NULL CHECK (status IN ('active', 'removed')),
    prefix          text NOT NULL CHECK (length(prefix) BETWEEN 1 AND 32 AND prefix ~ '^[A-Za-z0-9-]+(_[A-Za-z0-9-]+)*$'),
    -- Exactly one of them; neither once it is removed.
    url             text NOT NULL,
    command         text NOT NULL,
    custody         text NOT NULL CHECK (custody IN ('secret_ref', 'sealed', '')),
    header          text NOT NULL,
    scheme          text NOT NULL,
    secret_ref      text NOT NULL,
    sealing_key_id  text NOT NULL,
    -- HPKE: the encapsulated key, then the ciphertext.
    ciphertext      bytea,
    -- Keyed hash.
    fingerprint     text NOT NULL,
    price_pico_usd  bigint NOT NULL CHECK (price_pico_usd >= 0),
    timeout_seconds integer NOT NULL CHECK (timeout_seconds BETWEEN 1 AND 300),
    -- For each organization; 0 is no bound.
    max_concurrency integer NOT NULL CHECK (max_concurrency >= 0),
    max_per_minute  integer NOT NULL CHECK (max_per_minute >= 0),
    -- Of the registration, which definitions and listings don't change.
    version         integer NOT NULL CHECK (version > 0),
    created_by      text NOT NULL CHECK (created_by <> ''),
    -- Who last changed url or command; empty if they never changed.
    moved_by        text NOT NULL,
    created_at      timestamptz NOT NULL,
    updated_at      timestamptz NOT NULL,
    -- Version of the topic "tool" that last changed the row, or the definitions of the server.
    revision        bigint NOT NULL CHECK (revision > 0),

    PRIMARY KEY (organization_id, server_id),
    CHECK (CASE status WHEN 'active' THEN (url <> '') <> (command <> '') ELSE url = '' AND command = '' AND custody = '' END),
    CHECK ((custody = 'secret_ref') = (secret_ref <> '')),
    CHECK ((custody = 'sealed') = (sealing_key_id <> '' AND ciphertext IS NOT NULL)),
    CHECK ((custody = '') = (header = '') AND (custody <> '' OR (scheme = '' AND fingerprint = '')))
);

CREATE UNIQUE INDEX tool_server_prefix ON tool_server (organization_id, prefix) WHERE status = 'active';
CREATE INDEX tool_server_revision ON tool_server (revision, organization_id, server_id);

INSERT INTO control_topic (topic) VALUES ('tool');

-- +goose Down

DELETE FROM control_topic WHERE topic = 'tool';
DROP TABLE tool_server;
