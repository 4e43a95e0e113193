-- +goose Up

-- The credentials that providers refuse, or have refused lately: what events of them are recorded once by. No secret and
-- no part of one is here.
CREATE TABLE credential_failing (
    -- Empty for the operator's own.
    organization_id text        NOT NULL,
    provider        text        NOT NULL CHECK (provider <> ''),
    -- Name in the provider's pool; empty for the only one, and for an organization's.
    credential      text        NOT NULL,
    status          integer     NOT NULL CHECK (status BETWEEN 400 AND 599),
    failing_since   timestamptz NOT NULL DEFAULT now(),
    seen_at         timestamptz NOT NULL DEFAULT now(),
    -- Null while it fails.
    recovered_at    timestamptz CHECK (recovered_at >= failing_since),
    PRIMARY KEY (organization_id, provider, credential)
);

CREATE INDEX credential_failing_now ON credential_failing (failing_since DESC) WHERE recovered_at IS NULL;
CREATE INDEX credential_failing_seen ON credential_failing (seen_at);

-- Since when the operator's keys are in use: the earliest time that any replica has found for a key, since the file of a
-- key is often made anew for each replica.
CREATE TABLE key_age (
    provider    text        NOT NULL CHECK (provider <> ''),
    credential  text        NOT NULL,
    -- Keyed hash.
    fingerprint text        NOT NULL CHECK (fingerprint <> ''),
    set_at      timestamptz NOT NULL,
    seen_at     timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, credential, fingerprint)
);

-- The subject of a credential's events, and what their data have in common.
-- +goose StatementBegin
CREATE FUNCTION credential_subject(provider text, credential text) RETURNS text LANGUAGE sql IMMUTABLE AS $$
    SELECT 'credential/' || provider || CASE WHEN credential <> '' THEN '/' || credential ELSE '' END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION credential_data(organization_id text, provider text, credential text) RETURNS jsonb LANGUAGE sql IMMUTABLE AS $$
    SELECT jsonb_build_object('organization_id', organization_id, 'provider', provider, 'credential', credential,
        'origin', CASE WHEN organization_id = '' THEN 'operator' ELSE 'organization' END)
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION credential_data;
DROP FUNCTION credential_subject;
DROP TABLE key_age;
DROP TABLE credential_failing;
