-- +goose Up

-- What operators set over the policy: one row for the pin, one for the canary.
-- revision is what operators name to say which state they saw.
CREATE TABLE routing_override (
    kind       text PRIMARY KEY CHECK (kind IN ('pin', 'canary')),
    active     boolean NOT NULL DEFAULT false,
    provider   text NOT NULL DEFAULT '',
    -- Empty: the model that each request asks for.
    model      text NOT NULL DEFAULT '',
    percentage double precision NOT NULL DEFAULT 0 CHECK (percentage >= 0 AND percentage <= 100),
    sticky_by  text NOT NULL DEFAULT '' CHECK (sticky_by IN ('', 'organization', 'run')),
    set_at     timestamptz,
    set_by     text NOT NULL DEFAULT '',
    reason     text NOT NULL DEFAULT '',
    revision   integer NOT NULL DEFAULT 0 CHECK (revision >= 0),
    -- Of the topic routing.
    version    bigint NOT NULL DEFAULT 0,

    CHECK (active = (provider <> '') AND active = (set_at IS NOT NULL)),
    CHECK (kind = 'canary' OR sticky_by = '')
);

INSERT INTO routing_override (kind) VALUES ('pin'), ('canary');

-- What came of the requests of a canary and of those beside it, by the revision
-- of the canary. Those of older ones are deleted when one is set.
CREATE TABLE canary_arm (
    revision    integer NOT NULL,
    arm         text NOT NULL CHECK (arm IN ('canary', 'stable')),
    requests    bigint NOT NULL CHECK (requests >= 0),
    failed      bigint NOT NULL CHECK (failed >= 0),
    failed_over bigint NOT NULL CHECK (failed_over >= 0),
    latency_us  bigint NOT NULL CHECK (latency_us >= 0),
    PRIMARY KEY (revision, arm)
);

-- +goose Down

DROP TABLE canary_arm;
DROP TABLE routing_override;
