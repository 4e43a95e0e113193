-- +goose Up

-- Models that operators deprecated, over what the catalog says of them.
CREATE TABLE model_deprecation (
    provider      text NOT NULL CHECK (provider <> ''),
    model         text NOT NULL CHECK (model <> ''),
    successor     text NOT NULL CHECK (successor <> ''),
    reason        text NOT NULL CHECK (reason <> ''),
    -- First day on which it is not served; none: the catalog's.
    cutoff        date,
    deprecated_at timestamptz NOT NULL,
    deprecated_by text NOT NULL,
    updated_at    timestamptz NOT NULL,
    -- Of the topic model.
    version       bigint NOT NULL,
    PRIMARY KEY (provider, model)
);

-- +goose Down

DROP TABLE model_deprecation;
