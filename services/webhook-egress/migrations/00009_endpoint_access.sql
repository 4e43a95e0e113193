-- How deliveries are sent to an endpoint: additional headers, authentication, and the signatures that it wants. Additive:
-- the release before sends without them.

-- +goose Up

ALTER TABLE endpoints
    -- Each value is sealed for the endpoint and the header's name, and written in base64.
    ADD COLUMN custom_headers jsonb CHECK (jsonb_typeof(custom_headers) = 'object'),
    -- What reads show of the authentication; sealed_auth is all of it.
    ADD COLUMN auth           jsonb,
    ADD COLUMN sealed_auth    bytea,
    ADD COLUMN signatures     text[] NOT NULL DEFAULT '{spec,v1}'
        CHECK (signatures <@ '{spec,v1,v1a}' AND signatures @> '{spec}'),
    ADD CHECK ((auth IS NULL) = (sealed_auth IS NULL));

-- +goose Down

ALTER TABLE endpoints
    DROP COLUMN custom_headers,
    DROP COLUMN auth,
    DROP COLUMN sealed_auth,
    DROP COLUMN signatures;
