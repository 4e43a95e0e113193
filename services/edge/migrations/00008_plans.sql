-- +goose Up

-- One row, the number of the last change of any plan. It is taken under this
-- row's lock, so a reader that has seen a number has seen all changes before it.
CREATE TABLE plan_feed (
    only_row boolean PRIMARY KEY DEFAULT true CHECK (only_row),
    position bigint  NOT NULL CHECK (position >= 0)
);
INSERT INTO plan_feed (position) VALUES (0);

CREATE TABLE plans (
    name        text        PRIMARY KEY CHECK (name ~ '^[!-~]{1,128}$'),
    description text        NOT NULL CHECK (octet_length(description) <= 1000),
    created_at  timestamptz NOT NULL,
    updated_at  timestamptz NOT NULL
);

CREATE TABLE plan_limits (
    plan   text   NOT NULL REFERENCES plans (name) ON DELETE CASCADE,
    meter  text   NOT NULL CHECK (meter IN ('calls', 'tokens', 'cents', 'deliveries', 'notifications')),
    period text   NOT NULL CHECK (period IN ('minute', 'day', 'month')),
    kind   text   NOT NULL CHECK (kind IN ('hard', 'soft', 'metered')),
    amount bigint NOT NULL CHECK (amount BETWEEN 1 AND 1000000000000),
    PRIMARY KEY (plan, meter, period, kind),
    CHECK (meter <> 'cents' OR amount <= 900000000)
);

-- The plan of an organization; without a row the edge's default plan holds.
CREATE TABLE organization_plans (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    plan            text        NOT NULL REFERENCES plans (name),
    updated_at      timestamptz NOT NULL
);
CREATE INDEX organization_plans_plan ON organization_plans (plan);

-- A key's own plan, which holds beside its organization's. The release before
-- reads and writes none of it, so that a successor that it makes has no plan.
ALTER TABLE api_keys ADD COLUMN plan text REFERENCES plans (name);
CREATE INDEX api_keys_plan ON api_keys (plan) WHERE plan IS NOT NULL;

-- A plan concerns no single organization. The release before reads such entries as they are.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_organization_id_check,
    ADD CONSTRAINT audit_entry_names_organization CHECK (organization_id <> '' OR action LIKE 'plan.%') NOT VALID;
ALTER TABLE audit_entry VALIDATE CONSTRAINT audit_entry_names_organization;

-- +goose Down
-- The entries of plans stay: only new ones are checked.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_names_organization,
    ADD CONSTRAINT audit_entry_organization_id_check CHECK (organization_id <> '') NOT VALID;
ALTER TABLE api_keys DROP COLUMN plan;
DROP TABLE organization_plans, plan_limits, plans, plan_feed;
