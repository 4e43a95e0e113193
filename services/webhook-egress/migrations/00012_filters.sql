-- Filters: an endpoint receives only the events whose fields match an expression. Additive: the release before delivers
-- regardless of filters.

-- +goose Up

ALTER TABLE endpoints
    -- An expression in CEL; empty for none.
    ADD COLUMN filter text NOT NULL DEFAULT '' CHECK (char_length(filter) <= 1024);

ALTER TABLE events
    -- Endpoints that match by type and whose filter does not match.
    ADD COLUMN skipped_filtered integer NOT NULL DEFAULT 0;

-- Why the endpoint's filter could not be evaluated, so that the delivery was made all the same; null when it could. NOT
-- VALID: the column is null in all existing rows, which need not be read to check it.
ALTER TABLE deliveries
    ADD COLUMN filter_error text;
ALTER TABLE deliveries
    ADD CONSTRAINT deliveries_filter_error_check CHECK (filter_error IN ('evaluation_failed', 'cost_exceeded')) NOT VALID;

-- +goose Down
ALTER TABLE deliveries DROP COLUMN filter_error;
ALTER TABLE events DROP COLUMN skipped_filtered;
ALTER TABLE endpoints DROP COLUMN filter;
