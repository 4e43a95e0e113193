-- +goose Up

-- The first of the key's rotations, under which its budget counts; empty where the call came without terms of its key.
-- The row carries it, and not only the reservation: rows of batch jobs have none of their own, and a late row's is gone.
ALTER TABLE ledger_entry ADD COLUMN key_origin text NOT NULL DEFAULT '';

-- What was spent by product key, as spend_day by organization. It begins with the first rows that have an origin.
CREATE TABLE spend_key (
    organization_id text NOT NULL,
    key_origin      text NOT NULL CHECK (key_origin <> ''),
    day             date NOT NULL, -- UTC, of the row's recording
    shard           smallint NOT NULL,
    calls           bigint NOT NULL,
    cost_pico_usd   numeric NOT NULL,
    PRIMARY KEY (organization_id, key_origin, day, shard)
);

-- The key of a reservation and its budget when the call began. A ceiling of 0 is none.
ALTER TABLE budget_reservation
    ADD COLUMN key_origin        text NOT NULL DEFAULT '',
    ADD COLUMN key_ceiling_cents bigint NOT NULL DEFAULT 0 CHECK (key_ceiling_cents >= 0),
    ADD COLUMN key_period        text NOT NULL DEFAULT '' CHECK (key_period IN ('', 'day', 'month', 'total')),
    ADD CHECK ((key_ceiling_cents = 0) = (key_period = '')),
    ADD CHECK (key_ceiling_cents = 0 OR key_origin <> '');

ALTER TABLE budget_lapse
    ADD COLUMN key_origin        text NOT NULL DEFAULT '',
    ADD COLUMN key_ceiling_cents bigint NOT NULL DEFAULT 0 CHECK (key_ceiling_cents >= 0),
    ADD COLUMN key_period        text NOT NULL DEFAULT '' CHECK (key_period IN ('', 'day', 'month', 'total')),
    ADD CHECK ((key_ceiling_cents = 0) = (key_period = '')),
    ADD CHECK (key_ceiling_cents = 0 OR key_origin <> '');

CREATE INDEX budget_reservation_key ON budget_reservation (organization_id, key_origin) WHERE key_origin <> '';

-- What a key has spent in the current period of its budget, and what is reserved for its calls in flight.
-- +goose StatementBegin
CREATE FUNCTION budget_key_used(of_organization text, of_key text, of_period text) RETURNS numeric LANGUAGE sql VOLATILE AS $$
    SELECT coalesce(sum(cost_pico_usd), 0)
    FROM (
        SELECT cost_pico_usd FROM spend_key
        WHERE organization_id = of_organization AND key_origin = of_key AND day >= budget_period_start(of_period, clock_timestamp())
        UNION ALL
        SELECT amount_pico_usd FROM budget_reservation
        WHERE organization_id = of_organization AND key_origin = of_key AND key_origin <> ''
    ) AS of_this_key
$$;
-- +goose StatementEnd

-- The advisory lock under which the calls of one key reserve, one after another.
-- +goose StatementBegin
CREATE FUNCTION budget_key_lock(of_organization text, of_key text) RETURNS bigint LANGUAGE sql IMMUTABLE AS $$
    SELECT hashtextextended('key budget ' || of_organization || ' ' || of_key, 0)
$$;
-- +goose StatementEnd

-- budget_reserve under the budget of a key, too. The lock of the key comes before the row locks of the organization and
-- the run. The forms of 00031 and 00093 stay: the one of 00093 is called here, the other by the release before.
-- +goose StatementBegin
CREATE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint, of_calls integer,
    of_key text, of_ceiling bigint, of_period text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    refusal text;
BEGIN
    IF of_ceiling > 0 THEN
        PERFORM pg_advisory_xact_lock(budget_key_lock(of_organization, of_key));
        IF budget_key_used(of_organization, of_key, of_period) + amount > of_ceiling * 1e10 THEN RETURN 'key_budget_exceeded'; END IF;
    END IF;
    refusal := budget_reserve(call, of_replica, of_organization, of_run, amount, of_calls);
    IF refusal = '' AND of_key <> '' THEN
        UPDATE budget_reservation SET key_origin = of_key, key_ceiling_cents = of_ceiling, key_period = of_period WHERE id = call;
    END IF;
    RETURN refusal;
END
$$;
-- +goose StatementEnd

-- As in 00051, with the key of a reservation.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION replica_lapses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH held AS (
        DELETE FROM budget_reservation WHERE replica_id = OLD.id
        RETURNING id, replica_id, organization_id, run_id, amount_pico_usd, key_origin, key_ceiling_cents, key_period
    )
    INSERT INTO budget_lapse (id, replica_id, organization_id, run_id, amount_pico_usd, key_origin, key_ceiling_cents, key_period)
    SELECT id, replica_id, organization_id, run_id, amount_pico_usd, key_origin, key_ceiling_cents, key_period FROM held
    ON CONFLICT (id) DO NOTHING;
    RETURN OLD;
END
$$;
-- +goose StatementEnd

-- As in 00051, under the budgets of keys too. All of their locks are taken first and in one order, so that two replicas
-- that reclaim at the same time can't wait for each other.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_reclaim(of_replica uuid) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
    lapsed budget_lapse%ROWTYPE;
    lock   bigint;
BEGIN
    FOR lock IN
        SELECT DISTINCT budget_key_lock(organization_id, key_origin) FROM budget_lapse
        WHERE replica_id = of_replica AND key_ceiling_cents > 0 ORDER BY 1
    LOOP
        PERFORM pg_advisory_xact_lock(lock);
    END LOOP;
    FOR lapsed IN SELECT * FROM budget_lapse WHERE replica_id = of_replica ORDER BY organization_id, run_id, id FOR UPDATE LOOP
        IF budget_reserve(lapsed.id, of_replica, lapsed.organization_id, lapsed.run_id, lapsed.amount_pico_usd, 1,
            lapsed.key_origin, lapsed.key_ceiling_cents, lapsed.key_period) = '' THEN
            DELETE FROM budget_lapse WHERE id = lapsed.id;
        ELSE
            RETURN NEXT lapsed.id;
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- budget_overrun of 00093, with a row for the budget of a key where that is overrun.
-- +goose StatementBegin
CREATE FUNCTION budget_overrun(of_organization text, of_run text, of_key text, of_ceiling bigint, of_period text)
RETURNS TABLE (subject_type text, subject text, details jsonb) LANGUAGE sql AS $$
    SELECT * FROM budget_overrun(of_organization, of_run)
    UNION ALL
    SELECT 'key', of_key, jsonb_build_object('used_cents', round(used / 1e10, 6), 'budget_ceiling_cents', of_ceiling, 'period', of_period)
    FROM budget_key_used(of_organization, of_key, of_period) AS used
    WHERE of_ceiling > 0 AND used > of_ceiling * 1e10
$$;
-- +goose StatementEnd

-- As in 00051, with the spend of keys and the marks of their overruns.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_entry_counts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    late record;
BEGIN
    INSERT INTO spend_day AS d (organization_id, day, shard, calls, cost_pico_usd)
    SELECT organization_id, (recorded_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, count(*), sum(cost_pico_usd)
    FROM added GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (organization_id, day, shard)
    DO UPDATE SET calls = d.calls + excluded.calls, cost_pico_usd = d.cost_pico_usd + excluded.cost_pico_usd;

    INSERT INTO spend_run AS r (organization_id, run_id, shard, calls, cost_pico_usd, first_at, last_at)
    SELECT organization_id, run_id, pg_backend_pid() % 8, count(*), sum(cost_pico_usd), min(started_at), max(started_at)
    FROM added WHERE run_id <> '' GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (organization_id, run_id, shard)
    DO UPDATE SET calls = r.calls + excluded.calls, cost_pico_usd = r.cost_pico_usd + excluded.cost_pico_usd,
        first_at = least(r.first_at, excluded.first_at), last_at = greatest(r.last_at, excluded.last_at);

    INSERT INTO spend_key AS k (organization_id, key_origin, day, shard, calls, cost_pico_usd)
    SELECT organization_id, key_origin, (recorded_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, count(*), sum(cost_pico_usd)
    FROM added WHERE key_origin <> '' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (organization_id, key_origin, day, shard)
    DO UPDATE SET calls = k.calls + excluded.calls, cost_pico_usd = k.cost_pico_usd + excluded.cost_pico_usd;

    DELETE FROM budget_reservation AS b USING added WHERE b.id = added.id;

    FOR late IN
        DELETE FROM budget_lapse AS l USING added WHERE l.id = added.id
        RETURNING added.organization_id, added.run_id, added.request_id, added.cost_pico_usd, l.lapsed_at,
            l.key_origin, l.key_ceiling_cents, l.key_period
    LOOP
        INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
        SELECT 'system', 'system', 'budget.overrun', late.organization_id, o.subject_type, o.subject, late.request_id,
            'the replica of this call was cut off, and others were given what was set aside for it',
            o.details || jsonb_build_object('cost_cents', round(late.cost_pico_usd / 1e10, 6), 'lapsed_at', late.lapsed_at)
        FROM budget_overrun(late.organization_id, late.run_id, late.key_origin, late.key_ceiling_cents, late.key_period) AS o;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_entry_counts() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    late record;
BEGIN
    INSERT INTO spend_day AS d (organization_id, day, shard, calls, cost_pico_usd)
    SELECT organization_id, (recorded_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, count(*), sum(cost_pico_usd)
    FROM added GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (organization_id, day, shard)
    DO UPDATE SET calls = d.calls + excluded.calls, cost_pico_usd = d.cost_pico_usd + excluded.cost_pico_usd;

    INSERT INTO spend_run AS r (organization_id, run_id, shard, calls, cost_pico_usd, first_at, last_at)
    SELECT organization_id, run_id, pg_backend_pid() % 8, count(*), sum(cost_pico_usd), min(started_at), max(started_at)
    FROM added WHERE run_id <> '' GROUP BY 1, 2 ORDER BY 1, 2
    ON CONFLICT (organization_id, run_id, shard)
    DO UPDATE SET calls = r.calls + excluded.calls, cost_pico_usd = r.cost_pico_usd + excluded.cost_pico_usd,
        first_at = least(r.first_at, excluded.first_at), last_at = greatest(r.last_at, excluded.last_at);

    DELETE FROM budget_reservation AS b USING added WHERE b.id = added.id;

    FOR late IN
        DELETE FROM budget_lapse AS l USING added WHERE l.id = added.id
        RETURNING added.organization_id, added.run_id, added.request_id, added.cost_pico_usd, l.lapsed_at
    LOOP
        INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
        SELECT 'system', 'system', 'budget.overrun', late.organization_id, o.subject_type, o.subject, late.request_id,
            'the replica of this call was cut off, and others were given what was set aside for it',
            o.details || jsonb_build_object('cost_cents', round(late.cost_pico_usd / 1e10, 6), 'lapsed_at', late.lapsed_at)
        FROM budget_overrun(late.organization_id, late.run_id) AS o;
    END LOOP;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION replica_lapses() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    WITH held AS (
        DELETE FROM budget_reservation WHERE replica_id = OLD.id
        RETURNING id, replica_id, organization_id, run_id, amount_pico_usd
    )
    INSERT INTO budget_lapse (id, replica_id, organization_id, run_id, amount_pico_usd)
    SELECT id, replica_id, organization_id, run_id, amount_pico_usd FROM held
    ON CONFLICT (id) DO NOTHING;
    RETURN OLD;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_reclaim(of_replica uuid) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
DECLARE
    lapsed budget_lapse%ROWTYPE;
BEGIN
    FOR lapsed IN SELECT * FROM budget_lapse WHERE replica_id = of_replica ORDER BY organization_id, run_id, id FOR UPDATE LOOP
        IF budget_reserve(lapsed.id, of_replica, lapsed.organization_id, lapsed.run_id, lapsed.amount_pico_usd) = '' THEN
            DELETE FROM budget_lapse WHERE id = lapsed.id;
        ELSE
            RETURN NEXT lapsed.id;
        END IF;
    END LOOP;
END
$$;
-- +goose StatementEnd

DROP FUNCTION budget_overrun(text, text, text, bigint, text);
DROP FUNCTION budget_reserve(uuid, uuid, text, text, bigint, integer, text, bigint, text);
DROP FUNCTION budget_key_lock;
DROP FUNCTION budget_key_used;
DROP INDEX budget_reservation_key;
ALTER TABLE budget_lapse DROP COLUMN key_origin, DROP COLUMN key_ceiling_cents, DROP COLUMN key_period;
ALTER TABLE budget_reservation DROP COLUMN key_origin, DROP COLUMN key_ceiling_cents, DROP COLUMN key_period;
DROP TABLE spend_key;
ALTER TABLE ledger_entry DROP COLUMN key_origin;
