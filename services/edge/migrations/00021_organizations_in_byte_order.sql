-- +goose NO TRANSACTION

-- +goose Up

-- The organizations that begin with a prefix are a range of this index, whatever the database's collation. Keys are made
-- while it is built; a try that was broken off leaves an invalid one behind.
DROP INDEX IF EXISTS api_keys_organization_bytes;
CREATE INDEX CONCURRENTLY api_keys_organization_bytes ON api_keys (organization_id COLLATE "C");

-- +goose Down

DROP INDEX api_keys_organization_bytes;
