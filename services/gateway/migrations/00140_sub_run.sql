-- +goose Up

ALTER TABLE run
    -- The run that gave this one a part of its authority; empty for none.
    ADD COLUMN parent_run_id text    NOT NULL DEFAULT '',
    -- How many runs are above it.
    ADD COLUMN depth         integer NOT NULL DEFAULT 0 CHECK (depth BETWEEN 0 AND 32),
    ADD CHECK ((parent_run_id = '') = (depth = 0)),
    DROP CONSTRAINT run_end_reason_check,
    ADD CONSTRAINT run_end_reason_check
        CHECK (end_reason IN ('', 'max_cost_cents', 'max_calls', 'max_tool_calls', 'tool_loop', 'max_depth'));

CREATE INDEX run_parent ON run (organization_id, parent_run_id) WHERE parent_run_id <> '';

-- run_below returns the runs below one, at any depth, without it.
-- +goose StatementBegin
CREATE FUNCTION run_below(of_organization text, of_run text) RETURNS SETOF text LANGUAGE sql STABLE AS $$
    WITH RECURSIVE below AS (
        SELECT r.run_id FROM run AS r WHERE r.organization_id = of_organization AND r.parent_run_id = of_run AND of_run <> ''
        UNION
        SELECT r.run_id FROM run AS r JOIN below AS b ON r.parent_run_id = b.run_id
        WHERE r.organization_id = of_organization AND r.parent_run_id <> ''
    )
    SELECT run_id FROM below
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION run_below;
DROP INDEX run_parent;
ALTER TABLE run DROP CONSTRAINT run_end_reason_check, DROP COLUMN depth, DROP COLUMN parent_run_id,
    ADD CONSTRAINT run_end_reason_check
        CHECK (end_reason IN ('', 'max_cost_cents', 'max_calls', 'max_tool_calls', 'tool_loop'));
