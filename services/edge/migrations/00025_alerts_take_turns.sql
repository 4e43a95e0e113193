-- +goose Up

-- The position in the feed up to which an organization's alert rules are applied. The cursor in alert_cursor is only the
-- position up to which organizations were made due. Additive.
CREATE TABLE alert_progress (
    organization_id text        PRIMARY KEY REFERENCES alert_rules (organization_id) ON DELETE CASCADE,
    -- Empty: before the oldest event.
    cursor          text        NOT NULL,
    -- When the organization's next turn may begin. NULL: none of its events wait.
    due_at          timestamptz,
    -- How many turns in a row failed.
    failures        integer     NOT NULL DEFAULT 0 CHECK (failures >= 0),
    CHECK (failures = 0 OR due_at IS NOT NULL)
);

CREATE INDEX alert_progress_due ON alert_progress (due_at, organization_id) WHERE due_at IS NOT NULL;

-- +goose Down

DROP TABLE alert_progress;
