-- +goose NO TRANSACTION

-- +goose Up

-- Permissions may be scopes such as webhooks:endpoints:write, beside read and
-- write. The release before keeps them in a rotation, and takes none of them for
-- read or write: there such a key may do less, never more. Keys are validated
-- without a lock that keeps readers or writers out.
ALTER TABLE api_keys DROP CONSTRAINT IF EXISTS api_keys_permissions_are_scopes;
ALTER TABLE api_keys
    DROP CONSTRAINT IF EXISTS api_keys_permissions_check,
    ADD CONSTRAINT api_keys_permissions_are_scopes CHECK (
        cardinality(permissions) BETWEEN 1 AND 64 AND array_position(permissions, NULL) IS NULL
        AND array_to_string(permissions, ' ') ~ '^(read|write|[a-z]+:(\*|[a-z_]+:[a-z]+))( (read|write|[a-z]+:(\*|[a-z_]+:[a-z]+)))*$'
    ) NOT VALID;
ALTER TABLE api_keys VALIDATE CONSTRAINT api_keys_permissions_are_scopes;

-- +goose Down
-- Fails while a key has scopes: the release before could not tell what it may do.
ALTER TABLE api_keys
    ADD CONSTRAINT api_keys_permissions_check CHECK (cardinality(permissions) > 0 AND permissions <@ ARRAY['read', 'write']),
    DROP CONSTRAINT api_keys_permissions_are_scopes;
