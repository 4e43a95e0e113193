-- +goose Up

-- Tools of a server may answer with tasks where its registration says so. The release before passes the name on and
-- offers nothing for it.
ALTER TABLE tool_server DROP CONSTRAINT tool_server_features_check;
ALTER TABLE tool_server ADD CONSTRAINT tool_server_features_check CHECK (
    cardinality(features) BETWEEN 1 AND 5 AND features <@ ARRAY['tools', 'resources', 'prompts', 'completions', 'tasks']
    AND ('tools' = ANY(features) OR NOT 'tasks' = ANY(features))
);

-- +goose Down

UPDATE tool_server SET features = array_remove(features, 'tasks');
ALTER TABLE tool_server DROP CONSTRAINT tool_server_features_check;
ALTER TABLE tool_server ADD CONSTRAINT tool_server_features_check CHECK (
    cardinality(features) BETWEEN 1 AND 4 AND features <@ ARRAY['tools', 'resources', 'prompts', 'completions']
);
