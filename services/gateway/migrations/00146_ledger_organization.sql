-- +goose NO TRANSACTION

-- +goose Up

-- Pages of an organization's entries go by ledger_entry_organization_feed. The times of a page become transactions first.
DROP INDEX CONCURRENTLY IF EXISTS ledger_entry_organization;

-- +goose Down

DROP INDEX IF EXISTS ledger_entry_organization;
CREATE INDEX CONCURRENTLY ledger_entry_organization ON ledger_entry (organization_id, recorded_at);
