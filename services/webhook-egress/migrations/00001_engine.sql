-- The delivery engine. What is hot and small (flow, delivery_queue) is kept
-- apart from what is kept (deliveries, delivery_body, attempts), which is
-- partitioned by day so that retention drops tables and deletes no row.

-- +goose Up

-- A flow is one target of one organization, and the unit of scheduling: a
-- claim picks flows that are ready, then some rows of each. Parking a flow is
-- one update here; the rows behind it are neither read nor written.
CREATE TABLE flow (
    flow_id         bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    organization_id text        NOT NULL,
    scheme          text        NOT NULL CHECK (scheme IN ('http', 'https')),
    host            text        NOT NULL,
    port            integer     NOT NULL CHECK (port BETWEEN 1 AND 65535),
    -- No queue row of the flow needs attention before this moment: never later
    -- than the earliest due_at, unless parked.
    ready_at        timestamptz NOT NULL DEFAULT 'infinity',
    -- open: every delivery waits until parked_until, then one of them is tried.
    state           text        NOT NULL DEFAULT 'closed' CHECK (state IN ('closed', 'open')),
    parked_until    timestamptz NOT NULL DEFAULT '-infinity',
    parked_reason   text,
    created_at      timestamptz NOT NULL DEFAULT now(),
    UNIQUE (organization_id, scheme, host, port),
    CHECK ((state = 'open') = (parked_reason IS NOT NULL))
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

CREATE INDEX flow_ready ON flow (ready_at) WHERE ready_at < 'infinity';

-- How a flow's target has been doing. Apart from flow, because every settle
-- writes here: it must not make a claim wait or pass the flow over.
CREATE TABLE flow_health (
    flow_id              bigint      PRIMARY KEY,
    delivered            bigint      NOT NULL DEFAULT 0,
    failed               bigint      NOT NULL DEFAULT 0,
    consecutive_failures integer     NOT NULL DEFAULT 0,
    last_delivered_at    timestamptz,
    last_failed_at       timestamptz
) WITH (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 1000);

-- A row for each delivery that has not ended, and for no other.
CREATE TABLE delivery_queue (
    delivery_id uuid        PRIMARY KEY,
    created_at  timestamptz NOT NULL,
    -- No foreign key: enqueue locks the flow itself, and flows are not deleted.
    flow_id     bigint      NOT NULL,
    -- When the row may be taken: of a waiting row the next attempt, of a leased
    -- one the end of the lease. So an abandoned lease needs no clean-up.
    due_at      timestamptz NOT NULL,
    -- The fence: grows whenever the row changes hands. A result counts only
    -- while the row still has the number it was leased with.
    lease_seq   bigint      NOT NULL DEFAULT 0,
    leased_by   bigint,
    retry       boolean     NOT NULL DEFAULT false,
    deadline_at timestamptz
) WITH (fillfactor = 70, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 5000);

CREATE INDEX delivery_queue_due ON delivery_queue (flow_id, due_at);
CREATE INDEX delivery_queue_lease ON delivery_queue (leased_by) WHERE leased_by IS NOT NULL;
CREATE INDEX delivery_queue_deadline ON delivery_queue (deadline_at) WHERE deadline_at IS NOT NULL;

-- The replicas that are alive. A row is one process; its number is never used again.
CREATE TABLE replica (
    replica_id bigint      GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    name       text        NOT NULL,
    started_at timestamptz NOT NULL DEFAULT now(),
    seen_at    timestamptz NOT NULL DEFAULT now()
) WITH (fillfactor = 50);

-- The id is a UUIDv7 whose time is created_at, so a read by id opens one partition.
CREATE TABLE deliveries (
    id                 uuid        NOT NULL,
    created_at         timestamptz NOT NULL,
    organization_id    text        NOT NULL,
    owner_id           text,
    endpoint_id        uuid,
    event_id           uuid,
    flow_id            bigint      NOT NULL,
    url                text        NOT NULL,
    event_type         text        NOT NULL,
    signing_mode       text        NOT NULL CHECK (signing_mode IN ('org_timestamp', 'endpoint_body')),
    headers            jsonb,
    -- Custom headers that carry a credential: AES-256-GCM, bound to the id.
    sealed_headers     bytea,
    idempotency_key    text,
    traceparent        text,
    -- `delivering` is not stored: it is a leased queue row.
    status             text        NOT NULL
        CHECK (status IN ('queued', 'retrying', 'delivered', 'failed', 'cancelled', 'expired')),
    generation         integer     NOT NULL DEFAULT 1 CHECK (generation >= 1),
    attempts           integer     NOT NULL DEFAULT 0,
    max_attempts       integer     NOT NULL CHECK (max_attempts BETWEEN 1 AND 20),
    last_response_code integer,
    last_error         text,
    deadline_at        timestamptz,
    updated_at         timestamptz NOT NULL,
    finished_at        timestamptz,
    PRIMARY KEY (id, created_at),
    CHECK (attempts BETWEEN 0 AND max_attempts),
    CHECK ((status IN ('delivered', 'failed', 'cancelled', 'expired')) = (finished_at IS NOT NULL))
) PARTITION BY RANGE (created_at);

CREATE INDEX deliveries_by_organization ON deliveries (organization_id, id);

-- The bytes that are signed and sent, as they arrived. A table of their own:
-- an update of a status never copies them.
CREATE TABLE delivery_body (
    delivery_id uuid        NOT NULL,
    created_at  timestamptz NOT NULL,
    body        bytea       NOT NULL,
    PRIMARY KEY (delivery_id, created_at)
) PARTITION BY RANGE (created_at);

ALTER TABLE delivery_body ALTER COLUMN body SET STORAGE EXTERNAL;

-- The audit: one row for each request sent, never changed. Partitioned by the
-- delivery's time, so that both go on the same day.
CREATE TABLE attempts (
    delivery_id        uuid        NOT NULL,
    created_at         timestamptz NOT NULL,
    -- The lease under which it was made. In the key, so that writing a result
    -- again after a lost connection changes nothing.
    lease_seq          bigint      NOT NULL,
    generation         integer     NOT NULL,
    number             integer     NOT NULL,
    outcome            text        NOT NULL CHECK (outcome IN ('delivered', 'retry', 'failed', 'gone', 'late')),
    url                text        NOT NULL,
    remote_ip          text,
    response_code      integer,
    response_body      text        NOT NULL,
    response_truncated boolean     NOT NULL,
    error              text,
    retry_after        text,
    started_at         timestamptz NOT NULL,
    dns_ms             real        NOT NULL,
    connect_ms         real        NOT NULL,
    tls_ms             real        NOT NULL,
    first_byte_ms      real        NOT NULL,
    total_ms           real        NOT NULL,
    next_attempt_at    timestamptz,
    PRIMARY KEY (delivery_id, created_at, lease_seq)
) PARTITION BY RANGE (created_at);

-- Not partitioned: a unique key of a partitioned table has to hold the
-- partition's column, and then it would not be unique over days.
CREATE TABLE idempotency (
    organization_id text        NOT NULL,
    key_hash        bytea       NOT NULL,
    fingerprint     bytea       NOT NULL,
    delivery_id     uuid        NOT NULL,
    expires_at      timestamptz NOT NULL,
    PRIMARY KEY (organization_id, key_hash)
);

CREATE INDEX idempotency_expiry ON idempotency (expires_at);

-- Subscriptions. Secrets of organizations are files and never here; those of
-- endpoints are AES-256-GCM ciphertexts, bound to the endpoint's id.
CREATE TABLE endpoints (
    id                         uuid        PRIMARY KEY,
    organization_id            text        NOT NULL,
    owner_id                   text,
    url                        text        NOT NULL,
    flow_id                    bigint      NOT NULL,
    event_types                text[]      NOT NULL CHECK (cardinality(event_types) > 0),
    active                     boolean     NOT NULL DEFAULT true,
    signing_mode               text        NOT NULL CHECK (signing_mode IN ('org_timestamp', 'endpoint_body')),
    sealed_secret              bytea,
    sealed_previous_secret     bytea,
    previous_secret_expires_at timestamptz,
    rate_limit_per_second      double precision NOT NULL DEFAULT 0 CHECK (rate_limit_per_second >= 0),
    description                text        NOT NULL DEFAULT '',
    failing_since              timestamptz,
    disabled_reason            text        CHECK (disabled_reason IN ('gone', 'failing')),
    disabled_at                timestamptz,
    created_at                 timestamptz NOT NULL,
    updated_at                 timestamptz NOT NULL,
    deleted_at                 timestamptz,
    CHECK ((signing_mode = 'endpoint_body') = (sealed_secret IS NOT NULL)),
    CHECK ((disabled_reason IS NULL) = (disabled_at IS NULL)),
    CHECK (deleted_at IS NULL OR NOT active)
);

CREATE INDEX endpoints_by_organization ON endpoints (organization_id, id) WHERE deleted_at IS NULL;
CREATE INDEX endpoints_by_event_type ON endpoints USING gin (event_types) WHERE deleted_at IS NULL AND active;

-- +goose StatementBegin
-- ensure_partitions makes the daily partitions (UTC) of `days` days from
-- `first` on where they are missing, and returns how many it made. A partition
-- is made on its own and attached: creating it in place would lock its parent
-- against all reads and writes.
CREATE FUNCTION ensure_partitions(first date, days integer) RETURNS integer
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

SELECT ensure_partitions((now() AT TIME ZONE 'UTC')::date - 1, 5);

-- +goose Down
DROP TABLE endpoints, idempotency, attempts, delivery_body, deliveries, replica, delivery_queue, flow_health, flow;
DROP FUNCTION ensure_partitions(date, integer);
