-- +goose NO TRANSACTION

-- +goose Up

-- The edges of a window, where it cuts an hour. Appends go on while it is built;
-- a try that was broken off leaves an invalid one behind.
DROP INDEX IF EXISTS ledger_entry_provider;
CREATE INDEX CONCURRENTLY ledger_entry_provider ON ledger_entry (provider, started_at);

-- +goose Down

DROP INDEX ledger_entry_provider;
