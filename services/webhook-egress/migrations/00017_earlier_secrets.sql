-- The secrets before the previous one, so that rotations overlap. sealed_previous_secret and previous_secret_expires_at
-- stay the secret that was replaced last; these columns hold the two before it, the newest first, each with its own end.
-- Additive: the release before rotates in its own columns and leaves these as they are. What it drops is the secret that
-- was the previous one, as always. Where it ends every overlap, by no previous secret, the trigger ends the older ones.

-- +goose Up

ALTER TABLE endpoints
    ADD COLUMN sealed_older_secrets    bytea[]       NOT NULL DEFAULT '{}',
    ADD COLUMN older_secrets_expire_at timestamptz[] NOT NULL DEFAULT '{}',
    ADD CHECK (cardinality(sealed_older_secrets) = cardinality(older_secrets_expire_at)
               AND cardinality(sealed_older_secrets) <= 2
               AND array_position(sealed_older_secrets, NULL) IS NULL
               AND array_position(older_secrets_expire_at, NULL) IS NULL),
    ADD CHECK (sealed_previous_secret IS NOT NULL OR cardinality(sealed_older_secrets) = 0);

-- +goose StatementBegin
CREATE FUNCTION end_older_secrets() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    NEW.sealed_older_secrets := '{}';
    NEW.older_secrets_expire_at := '{}';
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER end_older_secrets BEFORE UPDATE ON endpoints
    FOR EACH ROW WHEN (NEW.sealed_previous_secret IS NULL AND cardinality(NEW.sealed_older_secrets) > 0)
    EXECUTE FUNCTION end_older_secrets();

-- +goose Down

DROP TRIGGER end_older_secrets ON endpoints;
DROP FUNCTION end_older_secrets();
ALTER TABLE endpoints
    DROP COLUMN sealed_older_secrets,
    DROP COLUMN older_secrets_expire_at;
