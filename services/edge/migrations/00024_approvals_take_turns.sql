-- +goose NO TRANSACTION

-- +goose Up

-- Organizations take turns at due notices and overdue approvals: each organization's are a range of these indexes. A try
-- that was broken off leaves an invalid index behind.
DROP INDEX IF EXISTS approval_notice_turn;
CREATE INDEX CONCURRENTLY approval_notice_turn ON approval_notice (state, organization_id, due_at, id)
    WHERE state IN ('planned', 'prepared', 'closing');
DROP INDEX IF EXISTS approval_turn;
CREATE INDEX CONCURRENTLY approval_turn ON approval (organization_id, coalesce(next_check, expires_at)) WHERE state = 'waiting';
DROP INDEX IF EXISTS approval_notice_due;

-- +goose Down

CREATE INDEX approval_notice_due ON approval_notice (state, due_at) WHERE state IN ('planned', 'prepared', 'closing');
DROP INDEX approval_turn;
DROP INDEX approval_notice_turn;
