-- +goose Up

-- What happens here and is told to organizations: written in the transaction that makes it so, or by a scan, and relayed
-- to webhook-egress. Rows stay after that, since they are what a repeat is known by.
CREATE TABLE house_event (
    -- A hash of organization, type, subject and transition, so that the same thing is one row, whichever replica finds it.
    event_id        text        PRIMARY KEY,
    -- Empty: of no single organization. The relay sends it to the operator's own.
    organization_id text        NOT NULL,
    type            text        NOT NULL CHECK (starts_with(type, 'switchyard.')),
    subject         text        NOT NULL,
    data            jsonb       NOT NULL CHECK (jsonb_typeof(data) = 'object'),
    occurred_at     timestamptz NOT NULL DEFAULT now(),
    -- Until then the row stays, sent or not.
    keep_until      timestamptz NOT NULL,
    attempts        integer     NOT NULL DEFAULT 0 CHECK (attempts >= 0),
    -- The next attempt; while one is made, the end of its lease.
    due_at          timestamptz NOT NULL DEFAULT now(),
    -- Infinity: given up.
    sent_at         timestamptz
);

CREATE INDEX house_event_due ON house_event (due_at) WHERE sent_at IS NULL;
CREATE INDEX house_event_keep ON house_event (keep_until);

-- house_event_add records an event unless it is recorded. The transition says which of the subject's events of this type
-- it is, such as the period and the threshold of a budget.
-- +goose StatementBegin
CREATE FUNCTION house_event_add(
    of_organization text, of_type text, of_subject text, transition text, of_data jsonb, keep interval DEFAULT '30 days'
) RETURNS void LANGUAGE sql AS $$
    INSERT INTO house_event (event_id, organization_id, type, subject, data, keep_until)
    VALUES (
        'gateway-' || encode(substr(sha256(convert_to(
            jsonb_build_array(of_organization, of_type, of_subject, transition)::text, 'UTF8')), 1, 16), 'hex'),
        of_organization, of_type, of_subject, of_data, now() + keep)
    ON CONFLICT (event_id) DO NOTHING
$$;
-- +goose StatementEnd

-- The percentages of a budget at which its organization is told: of its own, of its keys' and of its runs' budgets.
ALTER TABLE organization ADD COLUMN budget_thresholds integer[] NOT NULL DEFAULT '{50,80,100}'
    CHECK (cardinality(budget_thresholds) BETWEEN 1 AND 10 AND 1 <= ALL (budget_thresholds) AND 100 >= ALL (budget_thresholds));

-- The budgets of product keys, which come with each call: those of the last days.
CREATE TABLE key_budget (
    organization_id text        NOT NULL,
    key_origin      text        NOT NULL CHECK (key_origin <> ''),
    ceiling_cents   bigint      NOT NULL CHECK (ceiling_cents > 0),
    period          text        NOT NULL CHECK (period IN ('day', 'month', 'total')),
    -- When a call came with it, up to an hour before the last one.
    seen_at         timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, key_origin)
);

CREATE INDEX key_budget_seen ON key_budget (seen_at);

-- budget_reserve as in 00100, and it keeps the budget of the key.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint, of_calls integer,
    of_key text, of_ceiling bigint, of_period text) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    refusal text;
BEGIN
    IF of_ceiling > 0 THEN
        PERFORM pg_advisory_xact_lock(budget_key_lock(of_organization, of_key));
        IF NOT EXISTS (SELECT FROM key_budget AS k WHERE k.organization_id = of_organization AND k.key_origin = of_key
            AND k.ceiling_cents = of_ceiling AND k.period = of_period AND k.seen_at > now() - interval '1 hour') THEN
            INSERT INTO key_budget AS k (organization_id, key_origin, ceiling_cents, period)
            VALUES (of_organization, of_key, of_ceiling, of_period)
            ON CONFLICT (organization_id, key_origin) DO UPDATE SET ceiling_cents = excluded.ceiling_cents, period = excluded.period, seen_at = now();
        END IF;
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

-- The position in the feed of the ledger up to which budgets are compared with their thresholds: from now on. The
-- replica that compares holds its one row.
CREATE TABLE budget_mark (
    one  boolean PRIMARY KEY DEFAULT true CHECK (one),
    txid xid8 NOT NULL,
    seq  bigint NOT NULL
);

INSERT INTO budget_mark (txid, seq) SELECT pg_snapshot_xmin(pg_current_snapshot()), 0;

-- The end of the period of a budget that began on a day.
-- +goose StatementBegin
CREATE FUNCTION budget_period_end(period text, start date) RETURNS date LANGUAGE sql IMMUTABLE AS $$
    SELECT CASE period
        WHEN 'day' THEN start + 1
        WHEN 'month' THEN (start + interval '1 month')::date
        ELSE 'infinity'::date
    END
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION budget_period_end;
DROP TABLE budget_mark;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint, of_calls integer,
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

DROP TABLE key_budget;
ALTER TABLE organization DROP COLUMN budget_thresholds;
DROP FUNCTION house_event_add;
DROP TABLE house_event;
