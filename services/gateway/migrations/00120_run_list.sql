-- +goose NO TRANSACTION

-- +goose Up

-- An organization's runs, newest first. Runs go on while it is built; a try that was broken off leaves an invalid one
-- behind.
DROP INDEX IF EXISTS run_created;
CREATE INDEX CONCURRENTLY run_created ON run (organization_id, created_at DESC, run_id DESC) WHERE status IS NOT NULL;

-- +goose Down
DROP INDEX run_created;
