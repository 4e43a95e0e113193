-- +goose Up

-- What the vendor reported where that was more than the request can use and less was billed, by the columns of the
-- buckets. Null where the report is billed as it is, or there was none.
ALTER TABLE ledger_entry ADD COLUMN reported_usage jsonb;

-- +goose Down

ALTER TABLE ledger_entry DROP COLUMN reported_usage;
