-- +goose Up

ALTER TABLE run
    -- Patterns "server/tool"; empty for any.
    ADD COLUMN allowed_tools  text[] NOT NULL DEFAULT '{}',
    ADD COLUMN max_tool_calls integer CHECK (max_tool_calls >= 1),
    -- Which limit ended the run; empty where an older release ended it.
    ADD COLUMN end_reason     text NOT NULL DEFAULT ''
        CHECK (end_reason IN ('', 'max_cost_cents', 'max_calls', 'max_tool_calls', 'tool_loop')),
    ADD CHECK (end_reason = '' OR status = 'exhausted');

-- The digest of the exact call that a reservation is for, where it is one of a tool.
ALTER TABLE budget_reservation ADD COLUMN tool_digest bytea CHECK (octet_length(tool_digest) = 32);

-- The calls of tools that a run has made, with those in flight, and how often it made each call. Runs without an
-- authority have rows, too. Counts are exact: a call that was never sent is taken off again with its reservation.
CREATE TABLE run_tool_use (
    organization_id text        NOT NULL CHECK (organization_id <> ''),
    run_id          text        NOT NULL CHECK (run_id <> ''),
    calls           bigint      NOT NULL CHECK (calls >= 0),
    first_at        timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (organization_id, run_id)
);

CREATE INDEX run_tool_use_first ON run_tool_use (first_at);

CREATE TABLE run_tool_repeat (
    organization_id text   NOT NULL,
    run_id          text   NOT NULL,
    call_digest     bytea  NOT NULL CHECK (octet_length(call_digest) = 32),
    calls           bigint NOT NULL CHECK (calls >= 0),
    PRIMARY KEY (organization_id, run_id, call_digest),
    FOREIGN KEY (organization_id, run_id) REFERENCES run_tool_use ON DELETE CASCADE
);

-- How many calls of tools a run has made, without those in flight.
-- +goose StatementBegin
CREATE FUNCTION run_tool_calls(of_organization text, of_run text) RETURNS bigint LANGUAGE sql STABLE AS $$
    SELECT u.calls - (SELECT count(*) FROM budget_reservation AS b
        WHERE b.organization_id = of_organization AND b.run_id = of_run AND b.tool_digest IS NOT NULL)
    FROM run_tool_use AS u WHERE u.organization_id = of_organization AND u.run_id = of_run
$$;
-- +goose StatementEnd

-- run_exhaust ends a run that has an authority because of a limit, with an audit entry and an event.
-- +goose StatementBegin
CREATE FUNCTION run_exhaust(of_organization text, of_run text, of_reason text) RETURNS void LANGUAGE plpgsql AS $$
BEGIN
    UPDATE run SET status = 'exhausted', ended_at = clock_timestamp(), end_reason = of_reason
    WHERE organization_id = of_organization AND run_id = of_run AND status IN ('minted', 'active');
    IF NOT FOUND THEN RETURN; END IF;
    PERFORM house_event_add(of_organization, 'switchyard.run.exhausted', 'run/' || of_run, '', jsonb_build_object(
        'organization_id', of_organization, 'run_id', of_run, 'calls', coalesce(sum(s.calls), 0),
        'spent_cents', round(coalesce(sum(s.cost_pico_usd), 0) / 1e10, 6)))
    FROM spend_run AS s WHERE s.organization_id = of_organization AND s.run_id = of_run;
    INSERT INTO audit_entry (actor, actor_role, action, organization_id, subject_type, subject, request_id, reason, details)
    VALUES ('system', 'system', 'run.exhaust', of_organization, 'run', of_run, '', of_reason, '{}');
END
$$;
-- +goose StatementEnd

-- tool_reserve is budget_reserve for a call of a tool. The limits of 0 are none; a limit of calls is that of a run whose
-- authority has none. A limit that is used up ends the run; one that calls in flight may still use up only refuses.
-- +goose StatementBegin
CREATE FUNCTION tool_reserve(call uuid, of_replica uuid, of_organization text, of_run text, amount bigint,
    of_key text, of_ceiling bigint, of_period text, of_digest bytea, of_max_calls integer, of_repeats integer) RETURNS text
LANGUAGE plpgsql AS $$
DECLARE
    refusal   text;
    most      bigint;
    made      bigint;
    held      bigint;
    same      bigint;
    same_held bigint;
BEGIN
    refusal := budget_reserve(call, of_replica, of_organization, of_run, amount, 1, of_key, of_ceiling, of_period);
    IF refusal <> '' OR of_run = '' THEN RETURN refusal; END IF;

    -- The lock puts the run's calls in a line, also where it has no authority.
    INSERT INTO run_tool_use (organization_id, run_id, calls) VALUES (of_organization, of_run, 0) ON CONFLICT DO NOTHING;
    SELECT u.calls INTO made FROM run_tool_use AS u WHERE u.organization_id = of_organization AND u.run_id = of_run FOR NO KEY UPDATE;
    SELECT count(*), count(*) FILTER (WHERE b.tool_digest = of_digest) INTO held, same_held FROM budget_reservation AS b
    WHERE b.organization_id = of_organization AND b.run_id = of_run AND b.tool_digest IS NOT NULL;
    same := coalesce((SELECT r.calls FROM run_tool_repeat AS r
        WHERE r.organization_id = of_organization AND r.run_id = of_run AND r.call_digest = of_digest), 0);
    most := coalesce((SELECT r.max_tool_calls FROM run AS r WHERE r.organization_id = of_organization AND r.run_id = of_run), nullif(of_max_calls, 0));

    refusal := CASE
        WHEN of_repeats > 0 AND same - same_held >= of_repeats THEN 'tool_loop'
        WHEN made - held >= most THEN 'max_tool_calls'
        WHEN of_repeats > 0 AND same >= of_repeats THEN 'tool_repeats'
        WHEN made >= most THEN 'tool_calls'
        ELSE ''
    END;
    IF refusal <> '' THEN
        DELETE FROM budget_reservation WHERE id = call;
        IF refusal IN ('tool_loop', 'max_tool_calls') THEN PERFORM run_exhaust(of_organization, of_run, refusal); END IF;
        RETURN refusal;
    END IF;

    UPDATE run_tool_use AS u SET calls = u.calls + 1 WHERE u.organization_id = of_organization AND u.run_id = of_run;
    IF of_repeats > 0 THEN
        INSERT INTO run_tool_repeat AS r (organization_id, run_id, call_digest, calls) VALUES (of_organization, of_run, of_digest, 1)
        ON CONFLICT (organization_id, run_id, call_digest) DO UPDATE SET calls = r.calls + 1;
    END IF;
    UPDATE budget_reservation SET tool_digest = of_digest WHERE id = call;
    RETURN '';
END
$$;
-- +goose StatementEnd

-- +goose Down

DROP FUNCTION tool_reserve;
DROP FUNCTION run_exhaust;
DROP FUNCTION run_tool_calls;
DROP TABLE run_tool_repeat;
DROP TABLE run_tool_use;
ALTER TABLE budget_reservation DROP COLUMN tool_digest;
ALTER TABLE run DROP COLUMN end_reason, DROP COLUMN max_tool_calls, DROP COLUMN allowed_tools;
