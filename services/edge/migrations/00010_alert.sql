-- +goose Up

-- The alert rules of an organization, which are set as a whole.
CREATE TABLE alert_rules (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    rules           jsonb       NOT NULL CHECK (jsonb_typeof(rules) = 'array'),
    updated_at      timestamptz NOT NULL DEFAULT now()
);

-- The sequence of the last event that rules were applied to. The replica that applies them holds its one row.
CREATE TABLE alert_cursor (
    one      boolean PRIMARY KEY DEFAULT true CHECK (one),
    sequence bigint  NOT NULL CHECK (sequence >= 0)
);

INSERT INTO alert_cursor (sequence) VALUES (0);

-- What a rule told last of a subject, so that it repeats itself only after its time.
CREATE TABLE alert_told (
    organization_id text        NOT NULL,
    rule            text        NOT NULL,
    type            text        NOT NULL,
    subject         text        NOT NULL,
    event_id        text        NOT NULL,
    -- When the event was recorded.
    told_at         timestamptz NOT NULL,
    PRIMARY KEY (organization_id, rule, type, subject)
);

CREATE INDEX alert_told_at ON alert_told (told_at);

-- +goose Down

DROP TABLE alert_told;
DROP TABLE alert_cursor;
DROP TABLE alert_rules;
