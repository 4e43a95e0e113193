-- +goose Up

-- The gateway as a client of OAuth 2.1 at a tool server's authorization server. The secret is then the client's, and in
-- the columns that it had before. The custodies have other names, so that a previous release, which would send the
-- secret itself, knows none of them and refuses the call.
ALTER TABLE tool_server
    ADD COLUMN oauth jsonb,
    DROP CONSTRAINT tool_server_custody_check,
    ADD CONSTRAINT tool_server_custody_check CHECK (custody IN ('secret_ref', 'sealed', 'oauth_ref', 'oauth_sealed', '')),
    DROP CONSTRAINT tool_server_check1,
    ADD CONSTRAINT tool_server_reference_check CHECK ((custody IN ('secret_ref', 'oauth_ref')) = (secret_ref <> '')),
    DROP CONSTRAINT tool_server_check2,
    ADD CONSTRAINT tool_server_sealed_check
    CHECK ((custody IN ('sealed', 'oauth_sealed')) = (sealing_key_id <> '' AND ciphertext IS NOT NULL)),
    ADD CONSTRAINT tool_server_oauth_check CHECK (custody NOT IN ('oauth_ref', 'oauth_sealed') OR oauth IS NOT NULL);

-- +goose Down

-- A release without clients of OAuth calls these servers without a credential, which they refuse.
UPDATE tool_server
SET custody = '', header = '', scheme = '', secret_ref = '', sealing_key_id = '', ciphertext = NULL, fingerprint = ''
WHERE custody IN ('oauth_ref', 'oauth_sealed');
ALTER TABLE tool_server
    DROP CONSTRAINT tool_server_oauth_check,
    DROP CONSTRAINT tool_server_sealed_check,
    ADD CONSTRAINT tool_server_check2 CHECK ((custody = 'sealed') = (sealing_key_id <> '' AND ciphertext IS NOT NULL)),
    DROP CONSTRAINT tool_server_reference_check,
    ADD CONSTRAINT tool_server_check1 CHECK ((custody = 'secret_ref') = (secret_ref <> '')),
    DROP CONSTRAINT tool_server_custody_check,
    ADD CONSTRAINT tool_server_custody_check CHECK (custody IN ('secret_ref', 'sealed', '')),
    DROP COLUMN oauth;
