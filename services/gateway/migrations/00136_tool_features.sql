-- +goose Up

-- What of a server is offered to callers; the servers that are there offer tools alone. The release before writes none of
-- it and leaves it as it is.
ALTER TABLE tool_server ADD COLUMN features text[] NOT NULL DEFAULT '{tools}' CHECK (
    cardinality(features) BETWEEN 1 AND 4 AND features <@ ARRAY['tools', 'resources', 'prompts', 'completions']
);

-- +goose Down

ALTER TABLE tool_server DROP COLUMN features;
