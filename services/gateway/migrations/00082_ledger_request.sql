-- +goose NO TRANSACTION

-- +goose Up

-- No query goes by a request's id here: its trace has it, with the id of the entry.
-- It cost every entry the dearest of its index rows, at a place of chance.
DROP INDEX CONCURRENTLY IF EXISTS ledger_entry_request;

-- +goose Down

DROP INDEX IF EXISTS ledger_entry_request;
CREATE INDEX CONCURRENTLY ledger_entry_request ON ledger_entry (request_id);
