-- +goose Up

-- Reservations of replicas that were taken for dead. Their calls may be under way
-- all the same: a replica that was only cut off sets them aside again, and a
-- ledger row that comes late is known for what it is.
CREATE TABLE budget_lapse (
    id              uuid PRIMARY KEY,
    replica_id      uuid NOT NULL,
    organization_id text NOT NULL CHECK (organization_id <> ''),
    run_id          text NOT NULL,
    amount_pico_usd bigint NOT NULL CHECK (amount_pico_usd >= 0),
    lapsed_at       timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX budget_lapse_replica ON budget_lapse (replica_id);
CREATE INDEX budget_lapse_lapsed ON budget_lapse (lapsed_at);

-- Whoever takes a replica off, its reservations lapse. One whose ledger row is
-- being written at this moment is waited for, and gone.
-- +goose StatementBegin
CREATE FUNCTION replica_lapses() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER replica_lapses BEFORE DELETE ON replica FOR EACH ROW EXECUTE FUNCTION replica_lapses();

-- budget_reclaim sets what lapsed of a replica aside again, as far as the limits
-- still cover it, and gives the calls that they don't.
-- +goose StatementBegin
CREATE FUNCTION budget_reclaim(of_replica uuid) RETURNS SETOF uuid LANGUAGE plpgsql AS $$
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

-- budget_overrun says how far what is spent and set aside goes beyond the limits of
-- a run and an organization: a row for each one that is overrun.
-- +goose StatementBegin
CREATE FUNCTION budget_overrun(of_organization text, of_run text)
RETURNS TABLE (subject_type text, subject text, details jsonb) LANGUAGE sql STABLE AS $$
    SELECT 'run', r.run_id, jsonb_build_object(
        'used_cents', round((used.cost + held.cost) / 1e10, 6), 'max_cost_cents', r.max_cost_cents,
        'calls', used.calls + held.calls, 'max_calls', r.max_calls)
    FROM run AS r,
        LATERAL (SELECT coalesce(sum(s.cost_pico_usd), 0) AS cost, coalesce(sum(s.calls), 0) AS calls FROM spend_run AS s
            WHERE s.organization_id = r.organization_id AND s.run_id = r.run_id) AS used,
        LATERAL (SELECT coalesce(sum(b.amount_pico_usd), 0) AS cost, count(*) AS calls FROM budget_reservation AS b
            WHERE b.organization_id = r.organization_id AND b.run_id = r.run_id) AS held
    WHERE r.organization_id = of_organization AND r.run_id = of_run
        AND (used.cost + held.cost > r.max_cost_cents::numeric * 1e10 OR used.calls + held.calls > r.max_calls)
    UNION ALL
    SELECT 'organization', o.organization_id, jsonb_build_object(
        'used_cents', round((used.cost + held.cost) / 1e10, 6), 'budget_ceiling_cents', o.budget_ceiling_cents, 'period', o.budget_period)
    FROM organization AS o,
        LATERAL (SELECT coalesce(sum(d.cost_pico_usd), 0) AS cost FROM spend_day AS d
            WHERE d.organization_id = o.organization_id AND d.day >= budget_period_start(o.budget_period, clock_timestamp())) AS used,
        LATERAL (SELECT coalesce(sum(b.amount_pico_usd), 0) AS cost FROM budget_reservation AS b
            WHERE b.organization_id = o.organization_id) AS held
    WHERE o.organization_id = of_organization AND o.budget_ceiling_cents > 0
        AND used.cost + held.cost > o.budget_ceiling_cents::numeric * 1e10
$$;
-- +goose StatementEnd

-- As in 00031, and a row whose reservation had lapsed is marked in the audit where
-- a limit is overrun by it.
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

-- +goose Down

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_entry_counts() RETURNS trigger LANGUAGE plpgsql AS $$
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
    RETURN NULL;
END
$$;
-- +goose StatementEnd

DROP TRIGGER replica_lapses ON replica;
DROP FUNCTION replica_lapses;
DROP FUNCTION budget_reclaim;
DROP FUNCTION budget_overrun;
DROP TABLE budget_lapse;
