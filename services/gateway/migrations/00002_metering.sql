-- +goose Up

-- Finer buckets. Their defaults let the release before go on writing rows.
ALTER TABLE ledger_entry
    ADD COLUMN cache_write_long_tokens bigint NOT NULL DEFAULT 0 CHECK (cache_write_long_tokens >= 0),
    ADD COLUMN image_input_tokens      bigint NOT NULL DEFAULT 0 CHECK (image_input_tokens >= 0),
    ADD COLUMN audio_input_tokens      bigint NOT NULL DEFAULT 0 CHECK (audio_input_tokens >= 0),
    ADD COLUMN image_output_tokens     bigint NOT NULL DEFAULT 0 CHECK (image_output_tokens >= 0),
    ADD COLUMN audio_output_tokens     bigint NOT NULL DEFAULT 0 CHECK (audio_output_tokens >= 0);

-- One organization's feed.
CREATE INDEX ledger_entry_organization_feed ON ledger_entry (organization_id, txid, seq);

-- How often an organization's cached answers were purged. An entry of the
-- response cache is of one epoch, so that none of an earlier one is served again.
CREATE TABLE cache_epoch (
    organization_id text PRIMARY KEY CHECK (organization_id <> ''),
    epoch           bigint NOT NULL CHECK (epoch > 0),
    purged_at       timestamptz NOT NULL DEFAULT now()
);

-- +goose Down

DROP TABLE cache_epoch;
DROP INDEX ledger_entry_organization_feed;
ALTER TABLE ledger_entry
    DROP COLUMN cache_write_long_tokens,
    DROP COLUMN image_input_tokens,
    DROP COLUMN audio_input_tokens,
    DROP COLUMN image_output_tokens,
    DROP COLUMN audio_output_tokens;
