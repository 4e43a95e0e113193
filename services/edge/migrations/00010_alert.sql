-- +goose Up

-- The alert rules of an organization, which are set as a whole.
CREATE TABLE alert_rules (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    rules           jsonb       NOT NULL CHECK (jsonb_typeof(rules) = 'array'),
    updated_at      timestamptz NOT NULL DEFAULT now()
);

-- The cursor of the last event that rules were applied to; empty for none. The replica that applies them holds its one
-- row.
CREATE TABLE alert_cursor (
    one    boolean PRIMARY KEY DEFAULT true CHECK (one),
    cursor text    NOT NULL
);

INSERT INTO alert_cursor (cursor) VALUES ('');

-- The last notice of each rule, type and subject, so that a rule repeats itself only after its time.
CREATE TABLE alert_notice (
    organization_id text        NOT NULL,
    rule            text        NOT NULL,
    type            text        NOT NULL,
    subject         text        NOT NULL,
    event_id        text        NOT NULL,
    -- When the event was recorded.
    sent_at         timestamptz NOT NULL,
    PRIMARY KEY (organization_id, rule, type, subject)
);

CREATE INDEX alert_notice_sent ON alert_notice (sent_at);

-- +goose Down

DROP TABLE alert_notice;
DROP TABLE alert_cursor;
DROP TABLE alert_rules;
