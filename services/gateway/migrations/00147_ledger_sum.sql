-- +goose Up

-- Whether the row's writer counted it (spend_day, spend_run, spend_key, call_count, reservations, ledger_sum). The
-- previous release doesn't know the column, and the trigger below counts its rows.
ALTER TABLE ledger_entry ADD COLUMN counted boolean NOT NULL DEFAULT false;

-- The sums of a transaction's entries, by everything that spend_rollup, exposure_use and budgets group by. These are
-- aggregated from here, because a transaction has many entries and few sums. Rows that all three have read are deleted.
CREATE TABLE ledger_sum (
    txid                    xid8 NOT NULL DEFAULT pg_current_xact_id(),
    recorded_at             timestamptz NOT NULL DEFAULT now(),
    calls                   bigint NOT NULL CHECK (calls > 0),
    -- False if the transaction has no sums, because its entries differ too much or the previous release wrote them. Such a
    -- transaction has this one row, with calls set and the columns below at their defaults; its entries are read instead.
    summed                  boolean NOT NULL,
    organization_id         text NOT NULL DEFAULT '',
    provider                text NOT NULL DEFAULT '',
    model                   text NOT NULL DEFAULT '',
    key_id                  text NOT NULL DEFAULT '',
    key_origin              text NOT NULL DEFAULT '',
    user_id                 text NOT NULL DEFAULT '',
    tags                    jsonb NOT NULL DEFAULT '{}',
    service                 text NOT NULL DEFAULT '',
    run_id                  text NOT NULL DEFAULT '',
    credential              text NOT NULL DEFAULT '',
    credential_fingerprint  text NOT NULL DEFAULT '',
    cache_hit               boolean NOT NULL DEFAULT false,
    -- Both are in one hour.
    first_started_at        timestamptz NOT NULL DEFAULT '-infinity',
    last_started_at         timestamptz NOT NULL DEFAULT '-infinity',
    cost_pico_usd           numeric NOT NULL DEFAULT 0,
    input_tokens            bigint NOT NULL DEFAULT 0,
    cache_read_tokens       bigint NOT NULL DEFAULT 0,
    cache_write_tokens      bigint NOT NULL DEFAULT 0,
    cache_write_long_tokens bigint NOT NULL DEFAULT 0,
    image_input_tokens      bigint NOT NULL DEFAULT 0,
    audio_input_tokens      bigint NOT NULL DEFAULT 0,
    output_tokens           bigint NOT NULL DEFAULT 0,
    reasoning_tokens        bigint NOT NULL DEFAULT 0,
    image_output_tokens     bigint NOT NULL DEFAULT 0,
    audio_output_tokens     bigint NOT NULL DEFAULT 0,
    images                  bigint NOT NULL DEFAULT 0,
    characters              bigint NOT NULL DEFAULT 0,
    audio_seconds           bigint NOT NULL DEFAULT 0,
    searches                bigint NOT NULL DEFAULT 0
);

CREATE INDEX ledger_sum_feed ON ledger_sum (txid);

-- One row for each sum, and one for each entry of the transactions without sums.
CREATE VIEW ledger_summed AS
SELECT
    s.txid, s.recorded_at, s.calls, s.organization_id, s.provider, s.model, s.key_id, s.key_origin, s.user_id, s.tags, s.service,
    s.run_id, s.credential, s.credential_fingerprint, s.cache_hit, s.first_started_at, s.last_started_at, s.cost_pico_usd,
    s.input_tokens, s.cache_read_tokens, s.cache_write_tokens, s.cache_write_long_tokens, s.image_input_tokens,
    s.audio_input_tokens, s.output_tokens, s.reasoning_tokens, s.image_output_tokens, s.audio_output_tokens, s.images,
    s.characters, s.audio_seconds, s.searches
FROM ledger_sum AS s
WHERE s.summed
UNION ALL
SELECT
    t.txid, e.recorded_at, 1::bigint, e.organization_id, e.provider, e.model, e.key_id, e.key_origin, e.user_id, e.tags, e.service,
    e.run_id, e.credential, e.credential_fingerprint, e.cache_hit, e.started_at, e.started_at, e.cost_pico_usd::numeric,
    e.input_tokens, e.cache_read_tokens, e.cache_write_tokens, e.cache_write_long_tokens, e.image_input_tokens,
    e.audio_input_tokens, e.output_tokens, e.reasoning_tokens, e.image_output_tokens, e.audio_output_tokens, e.images,
    e.characters, e.audio_seconds, e.searches
FROM (SELECT DISTINCT s.txid FROM ledger_sum AS s WHERE NOT s.summed) AS t
-- One look-up for each transaction, whatever the plan's estimates are.
CROSS JOIN LATERAL (SELECT * FROM ledger_entry AS l WHERE l.txid = t.txid OFFSET 0) AS e;

-- ledger_sum_until returns the last transaction to aggregate: the first one after "after" at which the running total of
-- calls reaches "most", or the last readable one. It returns null if there is nothing to read. Transactions are read as
-- a whole. Every transaction below the oldest one in progress has
-- ended, so that none can appear before those that were read.
-- +goose StatementBegin
CREATE FUNCTION ledger_sum_until(after xid8, most integer) RETURNS xid8 LANGUAGE sql STABLE AS $$
    SELECT t.txid
    FROM (
        SELECT n.txid, sum(n.calls) OVER (ORDER BY n.txid) - n.calls AS calls_before
        FROM (
            SELECT f.txid, sum(f.calls) AS calls
            FROM (
                SELECT s.txid, s.calls FROM ledger_sum AS s
                WHERE s.txid > after AND s.txid < pg_snapshot_xmin(pg_current_snapshot())
                ORDER BY s.txid LIMIT most
            ) AS f
            GROUP BY f.txid
        ) AS n
    ) AS t
    WHERE t.calls_before < most
    ORDER BY t.txid DESC
    LIMIT 1
$$;
-- +goose StatementEnd

-- ledger_entry_settle ends the reservations of entries that this transaction inserts. If an entry's reservation had
-- lapsed and the entry overruns a limit, an audit entry is written.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_entry_settle(ids uuid[]) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    late record;
BEGIN
    -- Where nothing is reserved, this is cheaper than a look-up of each entry.
    IF EXISTS (SELECT FROM budget_reservation) THEN
        DELETE FROM budget_reservation AS b WHERE b.id = ANY (ids);
    END IF;
    IF NOT EXISTS (SELECT FROM budget_lapse) THEN RETURN; END IF;

    FOR late IN
        DELETE FROM budget_lapse AS l USING ledger_entry AS e WHERE l.id = ANY (ids) AND e.id = l.id
        RETURNING e.organization_id, e.run_id, e.request_id, e.cost_pico_usd, l.lapsed_at,
            l.key_origin, l.key_ceiling_cents, l.key_period
    LOOP
        INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
        SELECT 'system', 'system', 'budget.overrun', late.organization_id, o.subject_type, o.subject, late.request_id,
            'the replica of this call was cut off, and others were given what was set aside for it',
            o.details || jsonb_build_object('cost_cents', round(late.cost_pico_usd / 1e10, 6), 'lapsed_at', late.lapsed_at)
        FROM budget_overrun(late.organization_id, late.run_id, late.key_origin, late.key_ceiling_cents, late.key_period) AS o;
    END LOOP;
END
$$;
-- +goose StatementEnd

-- The triggers of 00100 and 00144 in one. Rows that the gateway has counted are skipped.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ledger_entry_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    -- A statement's rows have one writer, which counted all of them or none.
    IF coalesce((SELECT counted FROM added LIMIT 1), true) THEN RETURN NULL; END IF;

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

    INSERT INTO call_count (organization_id, key_id, metric, minute, user_id, tags, calls)
    SELECT organization_id, key_id, count_metric, date_trunc('minute', ended_at, 'UTC'), user_id, tags, count(*)
    FROM added WHERE count_metric <> '' GROUP BY 1, 2, 3, 4, 5, 6;

    INSERT INTO ledger_sum (calls, summed) SELECT count(*), false FROM added;

    PERFORM ledger_entry_settle(ARRAY(SELECT id FROM added));
    RETURN NULL;
END
$$;
-- +goose StatementEnd

DROP TRIGGER ledger_entry_call_counts ON ledger_entry;
DROP FUNCTION ledger_entry_call_counts;

-- The transactions that are not aggregated yet. The lock that ALTER TABLE took keeps writers out until this commits.
INSERT INTO ledger_sum (txid, calls, summed)
SELECT txid, count(*), false FROM ledger_entry
WHERE txid >= least((SELECT m.txid FROM spend_mark AS m), (SELECT m.txid FROM exposure_mark AS m), (SELECT m.txid FROM budget_mark AS m))
GROUP BY txid;

-- +goose Down

DROP VIEW ledger_summed;
DROP FUNCTION ledger_sum_until;
DROP TABLE ledger_sum;

-- +goose StatementBegin
CREATE FUNCTION ledger_entry_call_counts() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    INSERT INTO call_count (organization_id, key_id, metric, minute, user_id, tags, calls)
    SELECT organization_id, key_id, count_metric, date_trunc('minute', ended_at, 'UTC'), user_id, tags, count(*)
    FROM added WHERE count_metric <> '' GROUP BY 1, 2, 3, 4, 5, 6;
    RETURN NULL;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER ledger_entry_call_counts AFTER INSERT ON ledger_entry
    REFERENCING NEW TABLE AS added FOR EACH STATEMENT EXECUTE FUNCTION ledger_entry_call_counts();

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

    INSERT INTO spend_key AS k (organization_id, key_origin, day, shard, calls, cost_pico_usd)
    SELECT organization_id, key_origin, (recorded_at AT TIME ZONE 'UTC')::date, pg_backend_pid() % 8, count(*), sum(cost_pico_usd)
    FROM added WHERE key_origin <> '' GROUP BY 1, 2, 3 ORDER BY 1, 2, 3
    ON CONFLICT (organization_id, key_origin, day, shard)
    DO UPDATE SET calls = k.calls + excluded.calls, cost_pico_usd = k.cost_pico_usd + excluded.cost_pico_usd;

    PERFORM ledger_entry_settle(ARRAY(SELECT id FROM added));
    RETURN NULL;
END
$$;
-- +goose StatementEnd

ALTER TABLE ledger_entry DROP COLUMN counted;
