-- +goose Up

-- The circuits that are open on some replica. A row that no replica has seen for a while is of a circuit that closed.
CREATE TABLE circuit_open (
    provider  text        NOT NULL CHECK (provider <> ''),
    family    text        NOT NULL,
    opened_at timestamptz NOT NULL DEFAULT now(),
    seen_at   timestamptz NOT NULL DEFAULT now(),
    PRIMARY KEY (provider, family)
);

-- +goose Down

DROP TABLE circuit_open;
