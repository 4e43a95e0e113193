-- +goose Up

-- What operators set of an organization. A row is there once something was set.
CREATE TABLE organization (
    organization_id      text PRIMARY KEY CHECK (organization_id <> ''),
    suspended            boolean NOT NULL DEFAULT false,
    suspended_at         timestamptz,
    suspended_by         text NOT NULL DEFAULT '',
    -- Of the last suspension or restoration.
    status_reason        text NOT NULL DEFAULT '',
    status_changed_at    timestamptz,
    -- 0: no ceiling.
    budget_ceiling_cents double precision NOT NULL DEFAULT 0 CHECK (budget_ceiling_cents >= 0),
    budget_period        text NOT NULL DEFAULT 'month' CHECK (budget_period IN ('day', 'month', 'total')),
    version              bigint NOT NULL,
    CHECK (suspended = (suspended_at IS NOT NULL))
);

CREATE INDEX organization_version ON organization (version);

-- Runs that have an authority, or whose session was asked to stop.
CREATE TABLE run (
    organization_id    text NOT NULL CHECK (organization_id <> ''),
    run_id             text NOT NULL CHECK (run_id <> ''),
    -- Null: nobody minted it; the row is there for its abort.
    status             text CHECK (status IN ('minted', 'active', 'revoked', 'expired', 'exhausted')),
    initiated_by       text NOT NULL DEFAULT '',
    max_cost_cents     double precision CHECK (max_cost_cents > 0),
    max_calls          integer CHECK (max_calls >= 1),
    models             text[] NOT NULL DEFAULT '{}',
    expires_at         timestamptz,
    approval_ref       text NOT NULL DEFAULT '',
    metadata           jsonb NOT NULL DEFAULT '{}' CHECK (jsonb_typeof(metadata) = 'object'),
    created_at         timestamptz,
    activated_at       timestamptz,
    ended_at           timestamptz,
    revoked_by         text NOT NULL DEFAULT '',
    revoke_reason      text NOT NULL DEFAULT '',
    abort_requested_at timestamptz,
    abort_requested_by text NOT NULL DEFAULT '',
    abort_reason       text NOT NULL DEFAULT '',
    version            bigint NOT NULL,
    PRIMARY KEY (organization_id, run_id),
    CHECK (status IS NOT NULL OR abort_requested_at IS NOT NULL),
    CHECK ((status IS NULL) = (created_at IS NULL) AND (status IS NULL) = (expires_at IS NULL)),
    CHECK (status IS NULL OR (status IN ('minted', 'active')) = (ended_at IS NULL)),
    CHECK (status IS DISTINCT FROM 'minted' OR activated_at IS NULL)
);

CREATE INDEX run_id ON run (run_id);
CREATE INDEX run_version ON run (version);
CREATE INDEX run_live ON run (expires_at) WHERE status IN ('minted', 'active');

-- +goose Down

DROP TABLE run;
DROP TABLE organization;
