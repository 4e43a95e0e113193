-- +goose NO TRANSACTION

-- The dead letters of every organization in the order of their ids. An index of a partitioned table can't be built
-- concurrently: each day's is built in a transaction of its own, which holds up the dead letters of that day alone.
-- Additive.

-- +goose Up

-- A try that was broken off leaves the indexes of some days behind.
DROP INDEX IF EXISTS dead_letter_newest;
CREATE INDEX dead_letter_newest ON ONLY dead_letter (delivery_id);

-- +goose StatementBegin
DO $$
DECLARE
    part text;
BEGIN
    FOR part IN
        -- A day that the service makes meanwhile has its index already.
        SELECT c.relname FROM pg_inherits AS i JOIN pg_class AS c ON c.oid = i.inhrelid
        WHERE i.inhparent = to_regclass('dead_letter') AND NOT EXISTS (
            SELECT FROM pg_inherits AS attached JOIN pg_index AS x ON x.indexrelid = attached.inhrelid
            WHERE attached.inhparent = to_regclass('dead_letter_newest') AND x.indrelid = c.oid)
        ORDER BY c.relname
    LOOP
        CONTINUE WHEN to_regclass(quote_ident(part)) IS NULL; -- its retention has ended meanwhile
        EXECUTE format('CREATE INDEX %I ON %I (delivery_id)', part || '_newest', part);
        EXECUTE format('ALTER INDEX dead_letter_newest ATTACH PARTITION %I', part || '_newest');
        COMMIT;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- +goose Down

DROP INDEX dead_letter_newest;
