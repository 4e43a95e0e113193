-- +goose Up

ALTER TABLE export_cursor
    -- Identifiers of the page at position that the destination has taken or refused. They are not sent again.
    ADD COLUMN settled text[] NOT NULL DEFAULT '{}',
    -- Since when the other events of that page may have been taken without an answer; null if they were not.
    ADD COLUMN unsure_since timestamptz,
    -- A back-fill of refused events alone.
    ADD COLUMN only_refused boolean NOT NULL DEFAULT false;

-- +goose Down
ALTER TABLE export_cursor DROP COLUMN settled, DROP COLUMN unsure_since, DROP COLUMN only_refused;
