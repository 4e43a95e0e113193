-- +goose Up

-- Calls of tools have rows in the ledger, and traces. Rows that are there satisfy the narrower rule before: none is read
-- again.
ALTER TABLE ledger_entry
    DROP CONSTRAINT ledger_entry_operation_check,
    ADD CONSTRAINT ledger_entry_operation_check CHECK (operation IN (
        'chat', 'embeddings', 'vision', 'images',
        'completions', 'moderations', 'speech', 'transcriptions', 'rerank', 'tool', 'probe'
    )) NOT VALID;
ALTER TABLE trace
    DROP CONSTRAINT trace_operation_check,
    ADD CONSTRAINT trace_operation_check CHECK (operation IN (
        'chat', 'embeddings', 'vision', 'images',
        'completions', 'moderations', 'speech', 'transcriptions', 'rerank', 'tool'
    )) NOT VALID;

-- Every replica follows the levels of trust, since each call of a tool depends on one. The records that are there are of
-- the first version.
INSERT INTO control_topic (topic, version) VALUES ('trust', 1);
ALTER TABLE trust_record ADD COLUMN control_version bigint NOT NULL DEFAULT 1 CHECK (control_version >= 1);
CREATE INDEX trust_record_control ON trust_record (control_version) WHERE present;

-- The release before changes records without a version, while replicas of this one may serve calls: such a change moves
-- the topic here.
-- +goose StatementBegin
CREATE FUNCTION trust_record_follow() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    UPDATE control_topic SET version = version + 1, changed_at = now() WHERE topic = 'trust'
    RETURNING version INTO NEW.control_version;
    RETURN NEW;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER trust_record_added BEFORE INSERT ON trust_record
    FOR EACH ROW WHEN (NEW.control_version = 1) EXECUTE FUNCTION trust_record_follow();
CREATE TRIGGER trust_record_changed BEFORE UPDATE ON trust_record
    FOR EACH ROW WHEN (NEW.present AND NEW.control_version = OLD.control_version) EXECUTE FUNCTION trust_record_follow();

-- +goose Down

DROP TRIGGER trust_record_changed ON trust_record;
DROP TRIGGER trust_record_added ON trust_record;
DROP FUNCTION trust_record_follow();
ALTER TABLE trust_record DROP COLUMN control_version;
DELETE FROM control_topic WHERE topic = 'trust';
ALTER TABLE trace
    DROP CONSTRAINT trace_operation_check,
    ADD CONSTRAINT trace_operation_check CHECK (operation IN (
        'chat', 'embeddings', 'vision', 'images',
        'completions', 'moderations', 'speech', 'transcriptions', 'rerank'
    )) NOT VALID;
ALTER TABLE ledger_entry
    DROP CONSTRAINT ledger_entry_operation_check,
    ADD CONSTRAINT ledger_entry_operation_check CHECK (operation IN (
        'chat', 'embeddings', 'vision', 'images',
        'completions', 'moderations', 'speech', 'transcriptions', 'rerank', 'probe'
    )) NOT VALID;
