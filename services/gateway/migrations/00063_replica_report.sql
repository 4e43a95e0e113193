-- +goose Up

-- What each replica last said of itself and of the providers, for when Redis is
-- away, and to know who has gone silent.
CREATE TABLE replica_report (
    replica_id uuid PRIMARY KEY,
    report     jsonb NOT NULL,
    seen_at    timestamptz NOT NULL DEFAULT now()
);

-- +goose Down

DROP TABLE replica_report;
