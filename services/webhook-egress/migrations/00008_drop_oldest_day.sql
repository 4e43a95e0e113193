-- A condition may be evaluated for any relation, before it is known whether that is a
-- partition: the name of another one made to_date fail, and with it the retention, as
-- soon as the planner chose so. Names are compared as text. Additive.

-- +goose Up

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_oldest_day(before date) RETURNS date
LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    day    date;
    parent text;
BEGIN
    FOR day IN
        SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS of_day
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass('deliveries')
          AND right(c.relname, 8) < to_char(before, 'YYYYMMDD')
        ORDER BY of_day
    LOOP
        CONTINUE WHEN day_is_queued(day);
        LOCK TABLE ONLY deliveries, ONLY delivery_body, ONLY attempts, ONLY events, ONLY dead_letter IN ACCESS EXCLUSIVE MODE;
        CONTINUE WHEN day_is_queued(day);
        FOREACH parent IN ARRAY ARRAY['deliveries', 'delivery_body', 'attempts', 'events', 'dead_letter'] LOOP
            EXECUTE format('DROP TABLE IF EXISTS %I', parent || to_char(day, '_YYYYMMDD'));
        END LOOP;
        RETURN day;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION drop_oldest_day(before date) RETURNS date
LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    day    date;
    parent text;
BEGIN
    FOR day IN
        SELECT to_date(right(c.relname, 8), 'YYYYMMDD') AS of_day
        FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass('deliveries')
          AND to_date(right(c.relname, 8), 'YYYYMMDD') < before
        ORDER BY of_day
    LOOP
        CONTINUE WHEN day_is_queued(day);
        LOCK TABLE ONLY deliveries, ONLY delivery_body, ONLY attempts, ONLY events, ONLY dead_letter IN ACCESS EXCLUSIVE MODE;
        CONTINUE WHEN day_is_queued(day);
        FOREACH parent IN ARRAY ARRAY['deliveries', 'delivery_body', 'attempts', 'events', 'dead_letter'] LOOP
            EXECUTE format('DROP TABLE IF EXISTS %I', parent || to_char(day, '_YYYYMMDD'));
        END LOOP;
        RETURN day;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd
