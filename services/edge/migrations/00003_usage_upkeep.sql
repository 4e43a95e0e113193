-- +goose NO TRANSACTION

-- +goose Up

-- Upkeep merges old minutes into the first minute of their hour, and old hours
-- into the first of their day: these find what is still to be merged. Counts go
-- on while they are built; a try that was broken off leaves an invalid one behind.
DROP INDEX IF EXISTS usage_counters_within_hours;
CREATE INDEX CONCURRENTLY usage_counters_within_hours ON usage_counters (minute)
    WHERE minute AT TIME ZONE 'UTC' <> date_trunc('hour', minute AT TIME ZONE 'UTC');
DROP INDEX IF EXISTS usage_counters_within_days;
CREATE INDEX CONCURRENTLY usage_counters_within_days ON usage_counters (minute)
    WHERE minute AT TIME ZONE 'UTC' <> date_trunc('day', minute AT TIME ZONE 'UTC');
DROP INDEX IF EXISTS usage_counters_minute;
CREATE INDEX CONCURRENTLY usage_counters_minute ON usage_counters USING brin (minute);

-- +goose Down
DROP INDEX usage_counters_minute;
DROP INDEX usage_counters_within_days;
DROP INDEX usage_counters_within_hours;
