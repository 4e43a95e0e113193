-- +goose Up

-- People's decisions on executions of tools. Expiry is not stored: a pending
-- row is expired from expires_at on.
CREATE TABLE approval (
    -- Order of creation.
    id              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    ref             text NOT NULL UNIQUE CHECK (ref <> ''),
    organization_id text NOT NULL CHECK (organization_id <> ''),
    status          text NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'approved', 'denied')),
    tool            text NOT NULL CHECK (tool <> ''),
    -- JSON exactly as it came; null: any arguments.
    arguments       bytea,
    requested_by    text NOT NULL CHECK (requested_by <> ''),
    -- Empty where none was named.
    run_id          text NOT NULL,
    server_id       text NOT NULL,
    description     text NOT NULL,
    decided_by      text NOT NULL DEFAULT '',
    decided_at      timestamptz,
    reason          text NOT NULL DEFAULT '',
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,

    CHECK (expires_at > created_at),
    -- Decided, by somebody, before it expired; or not at all.
    CHECK (
        status = 'pending' AND decided_by = '' AND decided_at IS NULL
        OR status <> 'pending' AND decided_by <> '' AND decided_at IS NOT NULL AND decided_at < expires_at
    )
);

CREATE INDEX approval_organization ON approval (organization_id, id);
CREATE INDEX approval_pending ON approval (organization_id, id) WHERE status = 'pending';

-- A decision is final, whoever writes.
-- +goose StatementBegin
CREATE FUNCTION approval_is_final() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    RAISE EXCEPTION 'a decided approval is final' USING ERRCODE = 'restrict_violation';
END
$$;
-- +goose StatementEnd

CREATE TRIGGER approval_is_final BEFORE UPDATE ON approval
    FOR EACH ROW WHEN (old.status <> 'pending') EXECUTE FUNCTION approval_is_final();

-- +goose Down

DROP TABLE approval;
DROP FUNCTION approval_is_final;
