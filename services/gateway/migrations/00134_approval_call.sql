-- +goose Up

-- Who asked for an execution, beside requested_by: the user of the request, empty for none, and who initiated its run and
-- the runs above. None of them decides. decided_via is how it was decided; empty before, and for decisions of older releases.
ALTER TABLE approval
    ADD COLUMN asked_user text NOT NULL DEFAULT '',
    ADD COLUMN initiated_by text[] NOT NULL DEFAULT '{}',
    ADD COLUMN decided_via text NOT NULL DEFAULT '';

-- The one call that an approval is bound to, and what became of it. The approval's own row has the decision, which never
-- changes; this row has the execution, which happens once at most.
CREATE TABLE approval_call (
    approval_id       bigint PRIMARY KEY REFERENCES approval (id) ON DELETE CASCADE,
    organization_id   text NOT NULL CHECK (organization_id <> ''),
    run_id            text NOT NULL,
    -- Of server, tool, who asks, and the arguments in their canonical form.
    call_digest       bytea NOT NULL CHECK (octet_length(call_digest) = 32),
    definition_digest bytea NOT NULL CHECK (octet_length(definition_digest) = 32),
    policy_version    text NOT NULL,
    rule              text NOT NULL CHECK (rule <> ''),
    approvers         text NOT NULL CHECK (approvers <> ''),
    proof             text NOT NULL CHECK (proof IN ('page', 'link')),
    -- Whether standing approvals may be made from it.
    standing_allowed  boolean NOT NULL,
    price_pico_usd    bigint NOT NULL CHECK (price_pico_usd >= 0),
    reviewed_by       text NOT NULL,
    -- Kinds of data that were removed from the arguments.
    redacted          text[] NOT NULL,
    -- The approval of an earlier call with the same digest whose outcome is unknown; empty without one.
    unknown_ref       text NOT NULL,
    -- The standing approval that decided it; empty without one.
    standing_ref      text NOT NULL,

    state             text NOT NULL DEFAULT 'waiting'
    CHECK (state IN ('waiting', 'claimed', 'sent', 'done', 'failed', 'unknown', 'closed')),
    -- A result counts only under the attempt that was sent.
    attempt           integer NOT NULL DEFAULT 0 CHECK (attempt >= 0),
    replica           text NOT NULL DEFAULT '',
    lease_until       timestamptz,
    sent_at           timestamptz,
    ended_at          timestamptz,

    CHECK ((state IN ('claimed', 'sent')) = (lease_until IS NOT NULL)),
    CHECK ((state IN ('sent', 'done', 'failed', 'unknown')) = (sent_at IS NOT NULL)),
    CHECK ((state IN ('done', 'failed', 'unknown', 'closed')) = (ended_at IS NOT NULL)),
    CHECK (state IN ('waiting', 'closed') OR attempt > 0 AND replica <> '')
);

-- A call that is repeated finds its approval.
CREATE UNIQUE INDEX approval_call_open ON approval_call (organization_id, run_id, call_digest)
WHERE state IN ('waiting', 'claimed', 'sent');
CREATE INDEX approval_call_latest ON approval_call (organization_id, run_id, call_digest, approval_id);
CREATE INDEX approval_call_sent ON approval_call (lease_until) WHERE state = 'sent';

-- The order of states holds, whoever writes: nothing is claimed without an approval, nothing is sent without a claim, and
-- what was sent is claimed again only if it certainly did not leave, which its own replica alone can know.
-- +goose StatementBegin
CREATE FUNCTION approval_call_follows() RETURNS trigger LANGUAGE plpgsql AS $$
BEGIN
    IF NOT (old.state || '>' || new.state = ANY (ARRAY[
        'waiting>claimed', 'waiting>closed', 'claimed>claimed', 'claimed>waiting', 'claimed>sent', 'claimed>closed',
        'sent>done', 'sent>failed', 'sent>unknown', 'sent>waiting', 'unknown>done', 'unknown>failed'
    ])) THEN
        RAISE EXCEPTION 'an approved call that is % can''t become %', old.state, new.state USING ERRCODE = 'restrict_violation';
    END IF;
    IF new.state = 'claimed' AND NOT EXISTS (SELECT FROM approval WHERE id = new.approval_id AND status = 'approved') THEN
        RAISE EXCEPTION 'only an approved call can be claimed' USING ERRCODE = 'restrict_violation';
    END IF;
    RETURN new;
END
$$;
-- +goose StatementEnd

CREATE TRIGGER approval_call_follows BEFORE UPDATE ON approval_call
    FOR EACH ROW EXECUTE FUNCTION approval_call_follows();

-- Replicas that hold calls follow decisions.
INSERT INTO control_topic (topic) VALUES ('approval');

-- +goose Down

DELETE FROM control_topic WHERE topic = 'approval';
DROP TABLE approval_call;
DROP FUNCTION approval_call_follows;
ALTER TABLE approval DROP COLUMN asked_user, DROP COLUMN initiated_by, DROP COLUMN decided_via;
