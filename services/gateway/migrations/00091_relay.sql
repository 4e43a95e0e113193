-- +goose Up

-- The operations that are only relayed. Rows that are there satisfy the narrower rule before: none is read again.
ALTER TABLE ledger_entry
    DROP CONSTRAINT ledger_entry_operation_check,
    ADD CONSTRAINT ledger_entry_operation_check CHECK (operation IN (
        'chat', 'embeddings', 'vision', 'images',
        'completions', 'moderations', 'speech', 'transcriptions', 'rerank', 'probe'
    )) NOT VALID;
ALTER TABLE trace
    DROP CONSTRAINT trace_operation_check,
    ADD CONSTRAINT trace_operation_check CHECK (operation IN (
        'chat', 'embeddings', 'vision', 'images',
        'completions', 'moderations', 'speech', 'transcriptions', 'rerank'
    )) NOT VALID;

-- What these are billed by: characters of a text to speak, seconds of a recording, searches of a reranker. Their
-- defaults let the release before go on writing rows.
ALTER TABLE ledger_entry
    ADD COLUMN characters    bigint NOT NULL DEFAULT 0 CHECK (characters >= 0),
    ADD COLUMN audio_seconds bigint NOT NULL DEFAULT 0 CHECK (audio_seconds >= 0),
    ADD COLUMN searches      bigint NOT NULL DEFAULT 0 CHECK (searches >= 0);

-- +goose Down

ALTER TABLE ledger_entry
    DROP COLUMN characters,
    DROP COLUMN audio_seconds,
    DROP COLUMN searches;
ALTER TABLE trace
    DROP CONSTRAINT trace_operation_check,
    ADD CONSTRAINT trace_operation_check CHECK (operation IN ('chat', 'embeddings', 'vision', 'images')) NOT VALID;
ALTER TABLE ledger_entry
    DROP CONSTRAINT ledger_entry_operation_check,
    ADD CONSTRAINT ledger_entry_operation_check
        CHECK (operation IN ('chat', 'embeddings', 'vision', 'images', 'probe')) NOT VALID;
