-- +goose Up

-- When the URL last got another scheme, host or port. A delivery that was accepted before doesn't send its credentials
-- to the new one.
ALTER TABLE endpoints ADD COLUMN moved_at timestamptz;

-- +goose Down

ALTER TABLE endpoints DROP COLUMN moved_at;
