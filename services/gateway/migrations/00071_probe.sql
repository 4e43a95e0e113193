-- +goose Up

-- The one probe that may run, over all replicas. Its holder prolongs the lease
-- while it runs; one that dies gives the place back when the lease ends.
CREATE TABLE probe_lease (
    one        boolean PRIMARY KEY DEFAULT true CHECK (one),
    holder     uuid NOT NULL,
    kind       text NOT NULL CHECK (kind IN ('canary', 'consistency', 'liveness')),
    taken_at   timestamptz NOT NULL,
    until      timestamptz NOT NULL CHECK (until > taken_at)
);

-- +goose Down

DROP TABLE probe_lease;
