-- +goose Up

-- What happens here and is told to organizations, relayed to webhook-egress. Rows stay after that, since they are what
-- a repeat is known by.
CREATE TABLE house_event (
    -- A hash of organization, type, subject and transition, so that the same thing is one row, whichever replica finds it.
    event_id        text        PRIMARY KEY,
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    type            text        NOT NULL CHECK (starts_with(type, 'switchyard.')),
    subject         text        NOT NULL,
    data            jsonb       NOT NULL CHECK (jsonb_typeof(data) = 'object'),
    occurred_at     timestamptz NOT NULL DEFAULT now(),
    -- Until then the row stays, sent or not.
    keep_until      timestamptz NOT NULL,
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The next attempt; while one is made, the end of its lease.
    due_at          timestamptz NOT NULL DEFAULT now(),
    -- Infinity: given up.
    sent_at         timestamptz
);
CREATE INDEX house_event_due ON house_event (due_at) WHERE sent_at IS NULL;
CREATE INDEX house_event_keep ON house_event (keep_until);

-- The moment up to which usage was compared with the limits of plans: from now on. The replica of control that compares
-- holds its one row.
CREATE TABLE quota_mark (
    one         boolean     PRIMARY KEY DEFAULT true CHECK (one),
    compared_at timestamptz NOT NULL
);
INSERT INTO quota_mark (compared_at) VALUES (now());

-- When records were last added; null before the first. The release before does not write it: what is spent under it is
-- compared with the next call.
ALTER TABLE spend_feeds ADD COLUMN spent_at timestamptz;

-- Back-fills of exports concern no single organization either. The release before reads such entries as they are.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_names_organization,
    ADD CONSTRAINT audit_entry_names_organization
        CHECK (organization_id <> '' OR action LIKE 'plan.%' OR action LIKE 'export.%') NOT VALID;
ALTER TABLE audit_entry VALIDATE CONSTRAINT audit_entry_names_organization;

-- +goose Down
-- The entries of exports stay: only new ones are checked.
ALTER TABLE audit_entry
    DROP CONSTRAINT audit_entry_names_organization,
    ADD CONSTRAINT audit_entry_names_organization CHECK (organization_id <> '' OR action LIKE 'plan.%') NOT VALID;
ALTER TABLE spend_feeds DROP COLUMN spent_at;
DROP TABLE quota_mark, house_event;
