-- +goose Up

-- An overdue approval that the gateway could not show, or that still waited there, is read again later, so that it keeps no
-- other one open: how often that was, and when it is next. NULL: at once. Additive.
ALTER TABLE approval
    ADD COLUMN checks     integer NOT NULL DEFAULT 0 CHECK (checks >= 0),
    ADD COLUMN next_check timestamptz;

-- +goose Down

ALTER TABLE approval DROP COLUMN next_check, DROP COLUMN checks;
