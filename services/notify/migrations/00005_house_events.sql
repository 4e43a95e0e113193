-- +goose Up

-- What operators are told of: relayed to webhook-egress. Rows stay after that, since they are what a repeat is known by.
CREATE TABLE house_event (
    -- A hash of organization, type, subject and transition, so that the same thing is one row, whichever replica finds it.
    event_id        text        PRIMARY KEY,
    -- Empty: of no single organization. The relay sends it to the operator's own.
    organization_id text        NOT NULL,
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

-- house_event_add records an event unless it is recorded. The transition says which of the subject's events of this type
-- it is.
-- +goose StatementBegin
CREATE FUNCTION house_event_add(of_organization text, of_type text, of_subject text, transition text, of_data jsonb) RETURNS void
LANGUAGE sql AS $$
    INSERT INTO house_event (event_id, organization_id, type, subject, data, keep_until)
    VALUES (
        'notify-' || encode(substr(sha256(convert_to(
            jsonb_build_array(of_organization, of_type, of_subject, transition)::text, 'UTF8')), 1, 16), 'hex'),
        of_organization, of_type, of_subject, of_data, now() + interval '30 days')
    ON CONFLICT (event_id) DO NOTHING
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION house_event_add;
DROP TABLE house_event;
