-- +goose Up

-- A file of an organization, sealed (AES-256-GCM) under a key that the database never has: what its callers have uploaded,
-- and the results of batch jobs. Rows go when they expire, are deleted or erased with their organization.
CREATE TABLE file (
    id              text PRIMARY KEY CHECK (id <> ''),
    organization_id text NOT NULL CHECK (organization_id <> ''),
    -- On whose behalf it was uploaded; empty where the caller named no owner.
    owner_id        text NOT NULL,
    -- The requests and results of Anthropic's form are files, too, which callers don't see as such.
    purpose         text NOT NULL CHECK (purpose IN ('batch', 'batch_output', 'user_data', 'vision', 'message_batch', 'message_batch_output')),
    -- A file that is being written is not complete, and can't be read.
    complete        boolean NOT NULL,
    -- The key that its name is sealed with, and the bytes of its content.
    key_id          text NOT NULL CHECK (key_id <> ''),
    sealed_name     bytea NOT NULL,
    size            bigint NOT NULL CHECK (size >= 0),
    created_at      timestamptz NOT NULL,
    expires_at      timestamptz NOT NULL,

    CHECK (expires_at > created_at)
);

CREATE INDEX file_organization ON file (organization_id, created_at, id);
CREATE INDEX file_expires ON file (expires_at);

-- A piece of a file's content, packed and sealed.
CREATE TABLE file_piece (
    file_id text NOT NULL REFERENCES file ON DELETE CASCADE,
    number  integer NOT NULL CHECK (number >= 0),
    key_id  text NOT NULL CHECK (key_id <> ''),
    sealed  bytea NOT NULL,

    PRIMARY KEY (file_id, number)
);

-- A batch job: many requests that a vendor answers within a day. The row is the journal of its way: it is written before
-- the vendor is asked, and each step is repeated until it is done.
CREATE TABLE batch_job (
    id               text PRIMARY KEY CHECK (id <> ''),
    organization_id  text NOT NULL CHECK (organization_id <> ''),
    owner_id         text NOT NULL,
    run_id           text NOT NULL,
    -- The API's form that it was made in.
    form             text NOT NULL CHECK (form IN ('openai', 'anthropic')),
    -- making: to be given to a vendor. running: the vendor has it. settling: its results are to be billed and stored.
    -- clearing: it has ended, and the vendor's files are to be deleted. ended: nothing is left to do.
    stage            text NOT NULL CHECK (stage IN ('making', 'running', 'settling', 'clearing', 'ended')),
    -- Its end was asked for. Erased: nothing of its content is to be kept, either.
    cancel_requested boolean NOT NULL,
    erased           boolean NOT NULL,
    -- Who runs it and the vendor's id of it; empty before it is made.
    provider         text NOT NULL,
    vendor_id        text NOT NULL,
    -- The rest: what was asked for, the vendor's last report, and what each request may cost.
    key_id           text NOT NULL CHECK (key_id <> ''),
    sealed_state     bytea NOT NULL,
    requests_key_id  text NOT NULL CHECK (requests_key_id <> ''),
    sealed_requests  bytea NOT NULL,
    -- The worst case that is reserved under this id in budget_reservation, where its organization or run has a limit.
    reservation_id   uuid NOT NULL,
    -- When it is due next, which replica works on it and until when no other may; lease counts the claims.
    due_at           timestamptz NOT NULL,
    holder           text NOT NULL,
    held_until       timestamptz NOT NULL,
    lease            bigint NOT NULL CHECK (lease >= 0),
    created_at       timestamptz NOT NULL,
    -- When an ended job is no longer kept.
    expires_at       timestamptz NOT NULL
);

CREATE INDEX batch_job_due ON batch_job (due_at) WHERE stage <> 'ended';
CREATE INDEX batch_job_organization ON batch_job (organization_id, created_at, id);
CREATE INDEX batch_job_expires ON batch_job (expires_at) WHERE stage = 'ended';
CREATE INDEX batch_job_vendor ON batch_job (provider, vendor_id) WHERE vendor_id <> '';

-- The holder of the reservations of batch jobs, which outlive every replica: it is never silent.
INSERT INTO replica (id, seen_at) VALUES ('00000000-0000-0000-0000-00000000ba7c', 'infinity');

-- A batch job is as many calls of its run as it has requests.
ALTER TABLE budget_reservation ADD COLUMN calls integer NOT NULL DEFAULT 1 CHECK (calls > 0);

-- As budget_reserve in 00031, for a number of calls.
-- +goose StatementBegin
CREATE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint, of_calls integer) RETURNS text
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
            SELECT 0, 0, amount_pico_usd, budget_reservation.calls
            FROM budget_reservation WHERE organization_id = of_organization AND run_id = of_run
        ) AS of_this_run;
        CASE
            WHEN made >= limits.max_calls OR spent >= limits.max_cost_cents::numeric * 1e10 THEN RETURN 'run_exhausted';
            WHEN made + holding + of_calls > limits.max_calls THEN RETURN 'run_calls';
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

    INSERT INTO budget_reservation (id, replica_id, organization_id, run_id, amount_pico_usd, calls)
    VALUES (call, of_replica, of_organization, of_run, amount, of_calls);
    UPDATE run SET status = 'active', activated_at = clock_timestamp()
    WHERE organization_id = of_organization AND run_id = of_run AND status = 'minted';
    RETURN '';
END
$$;
-- +goose StatementEnd

-- The form of 00031, for one call: every replica of any release counts by the same rule.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint) RETURNS text
LANGUAGE sql AS $$
    SELECT budget_reserve(call, of_replica, of_organization, of_run, amount, 1)
$$;
-- +goose StatementEnd

-- As in 00051, with the calls of a reservation.
-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_overrun(of_organization text, of_run text)
RETURNS TABLE (subject_type text, subject text, details jsonb) LANGUAGE sql STABLE AS $$
    SELECT 'run', r.run_id, jsonb_build_object(
        'used_cents', round((used.cost + held.cost) / 1e10, 6), 'max_cost_cents', r.max_cost_cents,
        'calls', used.calls + held.calls, 'max_calls', r.max_calls)
    FROM run AS r,
        LATERAL (SELECT coalesce(sum(s.cost_pico_usd), 0) AS cost, coalesce(sum(s.calls), 0) AS calls FROM spend_run AS s
            WHERE s.organization_id = r.organization_id AND s.run_id = r.run_id) AS used,
        LATERAL (SELECT coalesce(sum(b.amount_pico_usd), 0) AS cost, coalesce(sum(b.calls), 0) AS calls FROM budget_reservation AS b
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

-- +goose Down

DROP TABLE batch_job;
DROP TABLE file_piece;
DROP TABLE file;
DELETE FROM replica WHERE id = '00000000-0000-0000-0000-00000000ba7c';

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint) RETURNS text
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

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION budget_overrun(of_organization text, of_run text)
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

DROP FUNCTION budget_reserve(uuid, uuid, text, text, bigint, integer);
ALTER TABLE budget_reservation DROP COLUMN calls;
