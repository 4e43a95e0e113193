-- What endpoints, events, resends and replays need, the breaker's state, and
-- retention. Additive: the release before runs on it, and makes no flows of
-- endpoints, since it registers none.

-- +goose Up

-- An endpoint has a flow of its own: pausing it, limiting its rate or moving it
-- to another URL is one update there, whatever waits behind it. Flows without an
-- endpoint are for deliveries that name their URL themselves. The breaker is not
-- the flow's but the target's, (organization, host, port): it parks all flows of
-- the target. Flows that have been idle for long are removed; whoever adds a
-- queue row locks the flow FOR KEY SHARE first and makes it where it is missing.
ALTER TABLE flow
    ADD COLUMN endpoint_id     uuid,
    -- Its endpoint is paused: not claimed from, whatever else the row says. Whoever
    -- sets it also sets parked_until and ready_at to infinity, state to open and
    -- parked_reason to endpoint_paused; whoever ends it sets all of them back.
    ADD COLUMN paused          boolean          NOT NULL DEFAULT false,
    -- Of its endpoint; 0 for no limit.
    ADD COLUMN rate_per_second double precision NOT NULL DEFAULT 0 CHECK (rate_per_second >= 0),
    -- How often in a row the target's breaker has opened: what a replica goes on
    -- from when Redis knows nothing.
    ADD COLUMN opened          integer          NOT NULL DEFAULT 0 CHECK (opened >= 0),
    DROP CONSTRAINT flow_organization_id_scheme_host_port_key,
    ADD CHECK (NOT paused OR endpoint_id IS NOT NULL);

CREATE UNIQUE INDEX flow_direct ON flow (organization_id, scheme, host, port) WHERE endpoint_id IS NULL;
CREATE UNIQUE INDEX flow_endpoint ON flow (endpoint_id) WHERE endpoint_id IS NOT NULL;
CREATE INDEX flow_target ON flow (organization_id, host, port);

-- The size of the body, so that a claim takes no more than there is memory for.
ALTER TABLE delivery_queue ADD COLUMN body_bytes integer NOT NULL DEFAULT 0;

-- lease_seq is the fence of the queue row that was removed last. A resend gives
-- its new row a higher one than this and than any attempt's, so that no result
-- of the series before fits it. A test is one attempt of an endpoint that counts
-- neither for nor against it; its flow is that of the bare URL. An event's deliveries
-- are made in the event's millisecond (the same created_at), and its body
-- is kept once, in delivery_body under the event's id.
ALTER TABLE deliveries
    ADD COLUMN lease_seq bigint  NOT NULL DEFAULT 0,
    ADD COLUMN test      boolean NOT NULL DEFAULT false;

CREATE INDEX deliveries_by_endpoint ON deliveries (endpoint_id, id) WHERE endpoint_id IS NOT NULL;
CREATE INDEX deliveries_by_event ON deliveries (event_id) WHERE event_id IS NOT NULL;

-- A row for each delivery that failed or expired, so that the dead letters of an
-- organization are found without reading all it ever sent. A table, since an
-- index on the status would make each change of it a change of every index.
-- Who ends a delivery so adds the row; who resends it takes it away.
CREATE TABLE dead_letter (
    organization_id text        NOT NULL,
    delivery_id     uuid        NOT NULL,
    created_at      timestamptz NOT NULL, -- the delivery's
    PRIMARY KEY (organization_id, delivery_id, created_at)
) PARTITION BY RANGE (created_at);

-- One row for each event that was fanned out. The id is a UUIDv7 like a delivery's.
CREATE TABLE events (
    id              uuid        NOT NULL,
    created_at      timestamptz NOT NULL,
    organization_id text        NOT NULL,
    owner_id        text, -- whose endpoints it was for; null for all
    event_type      text        NOT NULL,
    idempotency_key text,
    matched         integer     NOT NULL CHECK (matched >= 0),
    skipped_paused  integer     NOT NULL CHECK (skipped_paused >= 0),
    PRIMARY KEY (id, created_at)
) PARTITION BY RANGE (created_at);

CREATE INDEX events_by_organization ON events (organization_id, id);

-- Keys of events, resends and replays are in idempotency beside those of
-- deliveries: key_hash is then SHA-256 of the kind, a zero byte and the key, which is
-- no delivery's (a key has no zero byte), and delivery_id the id of the thing.
COMMENT ON COLUMN idempotency.key_hash IS 'SHA-256 of the key; of kind, zero byte, key for anything but a delivery';

-- An endpoint's health. failing_since (00001) is the first failure after the last
-- success, failures how many there have been since.
ALTER TABLE endpoints
    ADD COLUMN failures            integer     NOT NULL DEFAULT 0 CHECK (failures >= 0),
    -- When switchyard.endpoint.failing was emitted; null once it has recovered.
    ADD COLUMN failing_reported_at timestamptz;

CREATE UNIQUE INDEX endpoints_by_flow ON endpoints (flow_id);

-- Events of the service itself that are still to be fanned out: written in the
-- transaction that caused them, removed in the one that fans them out.
CREATE TABLE operational_event (
    operational_event_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id      text        NOT NULL,
    type                 text        NOT NULL CHECK (type IN ('switchyard.endpoint.failing',
        'switchyard.endpoint.recovered', 'switchyard.endpoint.disabled', 'switchyard.delivery.failed')),
    endpoint_id          uuid,
    delivery_id          uuid,
    occurred_at          timestamptz NOT NULL DEFAULT now()
);

-- Jobs of bulk replay. A replica works on a job under a lease with a fence, one
-- page a transaction: the cursor moves with what it requeued, so that a page is
-- never done twice.
CREATE TABLE replays (
    id              uuid             PRIMARY KEY,
    organization_id text             NOT NULL,
    owner_id        text,
    filter          jsonb            NOT NULL, -- ReplayFilter of the contract, as JSON
    status          text             NOT NULL CHECK (status IN ('queued', 'running', 'completed', 'cancelled', 'failed')),
    matched         integer          NOT NULL CHECK (matched >= 0),
    replayed        integer          NOT NULL DEFAULT 0 CHECK (replayed >= 0),
    skipped         integer          NOT NULL DEFAULT 0 CHECK (skipped >= 0),
    -- The last delivery that was looked at; null before the first.
    cursor          uuid,
    max_attempts    integer          CHECK (max_attempts BETWEEN 1 AND 20),
    deadline_at     timestamptz,
    rate_per_second double precision NOT NULL DEFAULT 0 CHECK (rate_per_second >= 0),
    error           text,
    -- When a page may be done next, by whom until then, and the fence.
    due_at          timestamptz      NOT NULL DEFAULT now(),
    leased_by       bigint,
    lease_seq       bigint           NOT NULL DEFAULT 0,
    created_at      timestamptz      NOT NULL,
    updated_at      timestamptz      NOT NULL,
    finished_at     timestamptz,
    CHECK ((status IN ('completed', 'cancelled', 'failed')) = (finished_at IS NOT NULL))
);

CREATE INDEX replays_by_organization ON replays (organization_id, id);
CREATE INDEX replays_due ON replays (due_at) WHERE finished_at IS NULL;

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ensure_partitions(first date, days integer) RETURNS integer
LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    parent  text;
    part    text;
    options text;
    day     date;
    made    integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('ensure_partitions'), hashtext(current_schema()));
    FOR day IN SELECT first + n FROM generate_series(0, days - 1) AS n LOOP
        FOREACH parent IN ARRAY ARRAY['deliveries', 'delivery_body', 'attempts', 'events', 'dead_letter'] LOOP
            part := parent || to_char(day, '_YYYYMMDD');
            CONTINUE WHEN to_regclass(quote_ident(part)) IS NOT NULL;
            -- Deliveries change state: room for updates within the page.
            options := CASE WHEN parent = 'deliveries' THEN ' WITH (fillfactor = 70)' ELSE '' END;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent) || options;
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                parent, part, day::timestamptz, (day + 1)::timestamptz);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- first_id is the lowest UUIDv7 of a moment, for ranges over ids.
CREATE FUNCTION first_id(moment timestamptz) RETURNS uuid LANGUAGE sql IMMUTABLE AS $$
    SELECT (lpad(to_hex((extract(epoch FROM moment) * 1000)::bigint), 12, '0') || repeat('0', 20))::uuid
$$;
-- +goose StatementEnd

-- +goose StatementBegin
CREATE FUNCTION day_is_queued(day date) RETURNS boolean
LANGUAGE sql VOLATILE SET timezone = 'UTC' SET enable_seqscan = off AS $$
    SELECT EXISTS (SELECT FROM delivery_queue
        WHERE delivery_id >= first_id(day::timestamptz) AND delivery_id < first_id((day + 1)::timestamptz))
$$;
-- +goose StatementEnd

-- +goose StatementBegin
-- drop_oldest_day drops the partitions of the oldest day before `before` on which
-- nothing is queued any more, and returns it; null when there is no such day.
-- The parents are locked for as long as that takes, which is the removal of
-- catalogue rows; the caller sets lock_timeout, because everybody waits behind
-- whoever waits for this lock. What is resent meanwhile has either been committed,
-- and is seen here, or finds its day gone.
CREATE FUNCTION drop_oldest_day(before date) RETURNS date
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

SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date - 1, 5);

-- Days that only the tables of 00001 have: a delivery of such a day may still fail.
SELECT ensure_partitions(min(to_date(right(c.relname, 8), 'YYYYMMDD')),
                         (now() AT TIME ZONE 'UTC')::date - min(to_date(right(c.relname, 8), 'YYYYMMDD')))
FROM pg_inherits i JOIN pg_class c ON c.oid = i.inhrelid
WHERE i.inhparent = to_regclass('deliveries');

-- +goose Down
DROP FUNCTION drop_oldest_day(date);
DROP FUNCTION day_is_queued(date);
DROP FUNCTION first_id(timestamptz);
DROP TABLE replays, operational_event, events, dead_letter;
DROP INDEX endpoints_by_flow;
ALTER TABLE endpoints DROP COLUMN failures, DROP COLUMN failing_reported_at;
DROP INDEX deliveries_by_endpoint, deliveries_by_event;
ALTER TABLE deliveries DROP COLUMN lease_seq, DROP COLUMN test;
ALTER TABLE delivery_queue DROP COLUMN body_bytes;
DELETE FROM flow WHERE endpoint_id IS NOT NULL;
DROP INDEX flow_direct, flow_target, flow_endpoint;
ALTER TABLE flow
    DROP COLUMN endpoint_id CASCADE, DROP COLUMN paused CASCADE, DROP COLUMN rate_per_second, DROP COLUMN opened,
    ADD UNIQUE (organization_id, scheme, host, port);

-- +goose StatementBegin
CREATE OR REPLACE FUNCTION ensure_partitions(first date, days integer) RETURNS integer
LANGUAGE plpgsql SET timezone = 'UTC' AS $$
DECLARE
    parent  text;
    part    text;
    options text;
    day     date;
    made    integer := 0;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtext('ensure_partitions'), hashtext(current_schema()));
    FOR day IN SELECT first + n FROM generate_series(0, days - 1) AS n LOOP
        FOREACH parent IN ARRAY ARRAY['deliveries', 'delivery_body', 'attempts'] LOOP
            part := parent || to_char(day, '_YYYYMMDD');
            CONTINUE WHEN to_regclass(quote_ident(part)) IS NOT NULL;
            -- Deliveries change state: room for updates within the page.
            options := CASE WHEN parent = 'deliveries' THEN ' WITH (fillfactor = 70)' ELSE '' END;
            EXECUTE format('CREATE TABLE %I (LIKE %I INCLUDING ALL)', part, parent) || options;
            EXECUTE format('ALTER TABLE %I ATTACH PARTITION %I FOR VALUES FROM (%L) TO (%L)',
                parent, part, day::timestamptz, (day + 1)::timestamptz);
            made := made + 1;
        END LOOP;
    END LOOP;
    RETURN made;
END
$$;
-- +goose StatementEnd
