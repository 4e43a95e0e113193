-- +goose Up

-- The groups of people who decide on an organization's approvals, which are set as a whole.
CREATE TABLE approver_groups (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    groups          jsonb       NOT NULL CHECK (jsonb_typeof(groups) = 'array'),
    updated_at      timestamptz NOT NULL DEFAULT now()
);

-- +goose Down

DROP TABLE approver_groups;
