-- +goose Up

-- The vendor's report, by the columns of the buckets, where it was more than the request can use and less was billed.
-- NULL if the report was billed unchanged, or if there was none.
ALTER TABLE ledger_entry ADD COLUMN reported_usage jsonb;

-- +goose Down

ALTER TABLE ledger_entry DROP COLUMN reported_usage;
