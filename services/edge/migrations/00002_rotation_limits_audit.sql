-- +goose Up

-- A limit is null where the edge's own setting holds. The release before reads
-- and writes none of these columns.
ALTER TABLE api_keys
    ADD COLUMN limit_requests       integer CHECK (limit_requests > 0),
    ADD COLUMN limit_window_seconds integer CHECK (limit_window_seconds > 0),
    ADD COLUMN limit_burst          integer CHECK (limit_burst > 0),
    -- The first key of a chain of rotations; null for the first itself. All of
    -- a chain share one limit.
    ADD COLUMN origin               text,
    ADD COLUMN replaced_by          text REFERENCES api_keys (id),
    ADD CONSTRAINT api_keys_limit_is_whole CHECK (num_nulls(limit_requests, limit_window_seconds, limit_burst) IN (0, 3));

CREATE TABLE organization_limits (
    organization_id text        PRIMARY KEY CHECK (organization_id <> ''),
    requests        integer     NOT NULL CHECK (requests > 0),
    window_seconds  integer     NOT NULL CHECK (window_seconds > 0),
    burst           integer     NOT NULL CHECK (burst > 0),
    updated_at      timestamptz NOT NULL
);

-- Who changed what, when, from which request; in the transaction of the change.
-- Rows are never changed.
CREATE TABLE audit_entry (
    id              bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    occurred_at     timestamptz NOT NULL,
    -- The name of a service token, or the user of the command line.
    actor           text        NOT NULL CHECK (actor <> ''),
    action          text        NOT NULL CHECK (action LIKE '_%._%'),
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    -- Empty where it concerns none.
    key_id          text        NOT NULL,
    request_id      text        NOT NULL,
    -- What changed, without secrets.
    details         jsonb       NOT NULL CHECK (jsonb_typeof(details) = 'object')
);
CREATE INDEX audit_entry_organization ON audit_entry (organization_id, id);
CREATE INDEX audit_entry_key ON audit_entry (key_id, id);

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
DROP TABLE organization_limits;
ALTER TABLE api_keys
    DROP CONSTRAINT api_keys_limit_is_whole,
    DROP COLUMN replaced_by, DROP COLUMN origin, DROP COLUMN limit_burst, DROP COLUMN limit_window_seconds, DROP COLUMN limit_requests;
