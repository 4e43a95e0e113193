-- +goose Up

-- What was spent, moved on by the ledger's own transactions: a sum of ledger
-- rows at every moment. Shards keep writers from waiting for one another.
CREATE TABLE spend_day (
    organization_id text NOT NULL,
    day             date NOT NULL, -- UTC, of the row's recording
    shard           smallint NOT NULL,
    calls           bigint NOT NULL,
    cost_pico_usd   numeric NOT NULL,
    PRIMARY KEY (organization_id, day, shard)
);

CREATE TABLE spend_run (
    organization_id text NOT NULL,
    run_id          text NOT NULL CHECK (run_id <> ''),
    shard           smallint NOT NULL,
    calls           bigint NOT NULL,
    cost_pico_usd   numeric NOT NULL,
    first_at        timestamptz NOT NULL,
    last_at         timestamptz NOT NULL,
    PRIMARY KEY (organization_id, run_id, shard)
);

CREATE INDEX spend_run_id ON spend_run (run_id);
CREATE INDEX spend_run_last ON spend_run (last_at);

-- The processes that hold reservations. One that was not seen for long is
-- forgotten, with what it held.
CREATE TABLE replica (
    id      uuid PRIMARY KEY,
    seen_at timestamptz NOT NULL DEFAULT now()
);

-- Calls in flight of each replica's sessions, as it last said.
CREATE TABLE replica_session (
    replica_id      uuid NOT NULL REFERENCES replica (id) ON DELETE CASCADE,
    organization_id text NOT NULL,
    run_id          text NOT NULL,
    calls           integer NOT NULL CHECK (calls > 0),
    PRIMARY KEY (replica_id, organization_id, run_id)
);

CREATE INDEX replica_session_run ON replica_session (run_id);

-- The worst case of a call in flight, by the id that its ledger row will have:
-- the row takes its place in one transaction.
CREATE TABLE budget_reservation (
    id              uuid PRIMARY KEY,
    replica_id      uuid NOT NULL REFERENCES replica (id) ON DELETE CASCADE,
    organization_id text NOT NULL CHECK (organization_id <> ''),
    run_id          text NOT NULL,
    amount_pico_usd bigint NOT NULL CHECK (amount_pico_usd >= 0),
    reserved_at     timestamptz NOT NULL DEFAULT now()
);

CREATE INDEX budget_reservation_run ON budget_reservation (organization_id, run_id);
CREATE INDEX budget_reservation_replica ON budget_reservation (replica_id);

-- When the present period of a budget began.
-- +goose StatementBegin
CREATE FUNCTION budget_period_start(period text, at timestamptz) RETURNS date LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE period
        WHEN 'day' THEN (at AT TIME ZONE 'UTC')::date
        WHEN 'month' THEN date_trunc('month', at AT TIME ZONE 'UTC')::date
        ELSE '-infinity'::date
    END
$$;
-- +goose StatementEnd

-- budget_reserve sets the worst case of a call aside, under the limits of its
-- run and its organization together, or says which one refuses it ('' is none).
-- The row locks put the calls under one limit in a line; each statement sees
-- what was committed before it, so that the next call sees this one.
-- +goose StatementBegin
CREATE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    org     organization%ROWTYPE;
    limits  run%ROWTYPE;
    spent   numeric;
    made    bigint;
    held    numeric;
    holding bigint;
BEGIN
    SELECT * INTO org FROM organization WHERE organization_id = of_organization FOR NO KEY UPDATE;
    SELECT * INTO limits FROM run WHERE organization_id = of_organization AND run_id = of_run FOR NO KEY UPDATE;
    CASE
        WHEN org.suspended THEN RETURN 'organization_suspended';
        WHEN limits.status = 'revoked' THEN RETURN 'run_revoked';
        WHEN limits.abort_requested_at IS NOT NULL THEN RETURN 'run_aborted';
        WHEN limits.status = 'expired' OR limits.expires_at <= clock_timestamp() THEN RETURN 'run_expired';
        WHEN limits.status = 'exhausted' THEN RETURN 'run_exhausted';
        ELSE
    END CASE;

    IF limits.max_cost_cents IS NOT NULL OR limits.max_calls IS NOT NULL THEN
        SELECT coalesce(sum(cost_pico_usd), 0), coalesce(sum(calls), 0), coalesce(sum(cost), 0), coalesce(sum(held_calls), 0)
        INTO spent, made, held, holding
        FROM (
            SELECT cost_pico_usd, calls, 0::numeric AS cost, 0::bigint AS held_calls
            FROM spend_run WHERE organization_id = of_organization AND run_id = of_run
            UNION ALL
            SELECT 0, 0, amount_pico_usd, 1
            FROM budget_reservation WHERE organization_id = of_organization AND run_id = of_run
        ) AS of_this_run;
        CASE
            WHEN made >= limits.max_calls OR spent >= limits.max_cost_cents::numeric * 1e10 THEN RETURN 'run_exhausted';
            WHEN made + holding >= limits.max_calls THEN RETURN 'run_calls';
            WHEN spent + held + amount > limits.max_cost_cents::numeric * 1e10 THEN RETURN 'run_cost';
            ELSE
        END CASE;
    END IF;

    IF org.budget_ceiling_cents > 0 THEN
        SELECT coalesce(sum(cost_pico_usd), 0) INTO spent
        FROM (
            SELECT cost_pico_usd FROM spend_day
            WHERE organization_id = of_organization AND day >= budget_period_start(org.budget_period, clock_timestamp())
            UNION ALL
            SELECT amount_pico_usd FROM budget_reservation WHERE organization_id = of_organization
        ) AS of_this_organization;
        IF spent + amount > org.budget_ceiling_cents::numeric * 1e10 THEN RETURN 'budget_exceeded'; END IF;
    END IF;

    INSERT INTO budget_reservation (id, replica_id, organization_id, run_id, amount_pico_usd)
    VALUES (call, of_replica, of_organization, of_run, amount);
    UPDATE run SET status = 'active', activated_at = clock_timestamp()
    WHERE organization_id = of_organization AND run_id = of_run AND status = 'minted';
    RETURN '';
END
$$;
-- +goose StatementEnd

-- A ledger row, whoever writes it, counts at once and ends its reservation. Rows
-- are touched in one order by everybody.
-- +goose StatementBegin
CREATE FUNCTION ledger_entry_counts() RETURNS trigger LANGUAGE plpgsql AS $$
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

CREATE TRIGGER ledger_entry_counts AFTER INSERT ON ledger_entry
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_entry_counts();

-- What is there already. The trigger's lock keeps writers out until this commits.
INSERT INTO spend_day (organization_id, day, shard, calls, cost_pico_usd)
SELECT organization_id, (recorded_at AT TIME ZONE 'UTC')::date, 0, count(*), sum(cost_pico_usd)
FROM ledger_entry GROUP BY 1, 2;

INSERT INTO spend_run (organization_id, run_id, shard, calls, cost_pico_usd, first_at, last_at)
SELECT organization_id, run_id, 0, count(*), sum(cost_pico_usd), min(started_at), max(started_at)
FROM ledger_entry WHERE run_id <> '' GROUP BY 1, 2;

-- +goose Down

DROP TRIGGER ledger_entry_counts ON ledger_entry;
DROP FUNCTION ledger_entry_counts;
DROP FUNCTION budget_reserve;
DROP FUNCTION budget_period_start;
DROP TABLE budget_reservation;
DROP TABLE replica_session;
DROP TABLE replica;
DROP TABLE spend_run;
DROP TABLE spend_day;
