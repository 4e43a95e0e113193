-- +goose Up

-- The credentials that organizations bring, one for each provider. A secret is
-- never here: it is named by a reference, or sealed to a key that the database
-- doesn't have. Erased rows stay, without either, so that every replica sees
-- that they are gone.
CREATE TABLE byok_config (
    organization_id          text NOT NULL CHECK (organization_id <> ''),
    -- Canonical name.
    provider                 text NOT NULL CHECK (provider <> ''),
    status                   text NOT NULL CHECK (status IN ('active', 'deactivated', 'erased')),
    custody                  text NOT NULL CHECK (custody IN ('secret_ref', 'sealed', '')),
    secret_ref               text NOT NULL DEFAULT '',
    sealing_key_id           text NOT NULL DEFAULT '',
    -- HPKE: the encapsulated key, then the ciphertext.
    ciphertext               bytea,
    masked_hint              text NOT NULL,
    -- Keyed hash.
    fingerprint              text NOT NULL,
    credential_version       integer NOT NULL CHECK (credential_version >= 1),
    owner_principal          text NOT NULL CHECK (owner_principal <> ''),
    -- Empty before the first transfer.
    previous_owner_principal text NOT NULL DEFAULT '',
    created_at               timestamptz NOT NULL,
    updated_at               timestamptz NOT NULL,
    last_used_at             timestamptz,
    rotated_at               timestamptz,
    transferred_at           timestamptz,
    expires_at               timestamptz,
    rotation_interval_days   integer NOT NULL DEFAULT 0 CHECK (rotation_interval_days BETWEEN 0 AND 3650),
    -- Version of the topic "credential" that last changed the row.
    revision                 bigint NOT NULL CHECK (revision > 0),
    PRIMARY KEY (organization_id, provider),
    CHECK ((custody = 'secret_ref') = (secret_ref <> '')),
    CHECK ((custody = 'sealed') = (sealing_key_id <> '' AND ciphertext IS NOT NULL)),
    CHECK ((status = 'erased') = (custody = '')),
    CHECK (status <> 'erased' OR (ciphertext IS NULL AND masked_hint = '' AND fingerprint = ''))
);

CREATE INDEX byok_config_revision ON byok_config (revision, organization_id, provider);

-- +goose Down

DROP TABLE byok_config;
