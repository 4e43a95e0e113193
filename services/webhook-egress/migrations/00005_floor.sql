-- While somebody keeps a transaction open, for an analysis or a backup, no dead
-- row can be removed, nor its entry in an index: a claim would read everything
-- that was ever due before it came to what is due now. Additive: the release
-- before neither reads nor lowers the floor, see SleepFlows.

-- +goose Up
ALTER TABLE flow
    -- No row of the flow is due before it. Raised by whoever holds FOR UPDATE, so
    -- that nobody is adding rows, and lowered by whoever adds one that is due earlier.
    ADD COLUMN floor    timestamptz NOT NULL DEFAULT 'epoch',
    -- When it was last raised.
    ADD COLUMN floor_at timestamptz NOT NULL DEFAULT 'epoch';

-- +goose Down
ALTER TABLE flow DROP COLUMN floor, DROP COLUMN floor_at;
