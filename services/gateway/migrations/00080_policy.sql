-- +goose Up

-- The policy that an operator last put in force: which files, by their hash. The
-- files themselves are each replica's own; one whose files are others can tell.
CREATE TABLE policy_release (
    one          boolean PRIMARY KEY DEFAULT true CHECK (one),
    -- Of the files; empty before the first release.
    hash         text NOT NULL,
    released_at  timestamptz NOT NULL DEFAULT now(),
    -- Of the topic policy.
    version      bigint NOT NULL CHECK (version > 0)
);

INSERT INTO policy_release (hash, version) VALUES ('', 1);
INSERT INTO control_topic (topic, version) VALUES ('policy', 1);

-- +goose Down

DELETE FROM control_topic WHERE topic = 'policy';
DROP TABLE policy_release;
