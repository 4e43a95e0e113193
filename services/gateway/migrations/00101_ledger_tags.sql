-- +goose Up

-- Whose call it was within the organization, and the caller's labels for its spend. Both are empty where the call named
-- none, and in rows that the release before writes. No row of an old ledger needs to be read for the check.
ALTER TABLE ledger_entry
    ADD COLUMN user_id text NOT NULL DEFAULT '',
    ADD COLUMN tags    jsonb NOT NULL DEFAULT '{}',
    ADD CONSTRAINT ledger_entry_tags CHECK (jsonb_typeof(tags) = 'object') NOT VALID;

-- +goose Down

ALTER TABLE ledger_entry
    DROP COLUMN user_id,
    DROP COLUMN tags;
