-- +goose Up

-- What operators and organizations set, and every replica must follow within a
-- second. A change moves its topic's version on in its own transaction, and
-- marks the rows that it touches with it: the row lock puts the writers of one
-- topic in a line, so that whoever has seen a version has seen all before it.
CREATE TABLE control_topic (
    topic      text PRIMARY KEY CHECK (topic <> ''),
    version    bigint NOT NULL DEFAULT 0 CHECK (version >= 0),
    changed_at timestamptz NOT NULL DEFAULT now()
);

INSERT INTO control_topic (topic) VALUES ('organization'), ('run'), ('credential'), ('routing'), ('model');

-- Who changed what, when, from which request. Rows are never changed.
CREATE TABLE audit_entry (
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    occurred_at     timestamptz NOT NULL DEFAULT now(),
    actor           text NOT NULL CHECK (actor <> ''),
    actor_role      text NOT NULL CHECK (actor_role IN ('service', 'operator', 'support', 'system')),
    -- "<noun>.<verb>", as byok.rotate.
    action          text NOT NULL CHECK (action LIKE '_%._%'),
    -- Empty where it concerns none.
    organization_id text NOT NULL,
    subject_type    text NOT NULL CHECK (subject_type <> ''),
    subject         text NOT NULL,
    request_id      text NOT NULL,
    reason          text NOT NULL,
    -- What changed, without secrets.
    details         jsonb NOT NULL CHECK (jsonb_typeof(details) = 'object')
);

CREATE INDEX audit_entry_organization ON audit_entry (organization_id, id);
CREATE INDEX audit_entry_subject ON audit_entry (subject, id);

-- +goose StatementBegin
CREATE FUNCTION audit_entry_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'audit_entry is append-only' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER audit_entry_is_final BEFORE UPDATE OR DELETE OR TRUNCATE ON audit_entry
    FOR EACH STATEMENT EXECUTE FUNCTION audit_entry_is_final();

-- +goose Down

DROP TABLE audit_entry;
DROP FUNCTION audit_entry_is_final;
DROP TABLE control_topic;
