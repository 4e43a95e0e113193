package postgres

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/control"
	"switchyard.dev/services/gateway/internal/operations/event"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
	"switchyard.dev/services/platform/houseevent"
)

// Approvals implements approval.Store.
type Approvals struct{ control *Control }

// NewApprovals returns the approvals of a database.
func NewApprovals(control *Control) *Approvals { return &Approvals{control} }

// Create implements approval.Store.
func (s *Approvals) Create(ctx context.Context, a approval.Approval, entry *audit.Entry) error {
	err := s.control.Record(ctx, entry, func(ctx context.Context, q *dbsql.Queries) error {
		entry.Details = approvalDetails(a)
		if err := setInitiators(ctx, q, &a); err != nil {
			return err
		}
		if err := insertApproval(ctx, q, &a); err != nil {
			return err
		}
		return addHouseEvent(ctx, q, approvalEvent(a, houseevent.ApprovalPending))
	})
	if err != nil {
		return fmt.Errorf("create approval: %w", err)
	}
	return nil
}

// setInitiators sets who initiated the run of a new approval.
func setInitiators(ctx context.Context, q *dbsql.Queries, a *approval.Approval) (err error) {
	a.InitiatedBy, err = q.RunInitiators(ctx, dbsql.RunInitiatorsParams{OrganizationID: a.Organization, RunID: a.Run})
	if err != nil {
		return fmt.Errorf("read the initiator of the run: %w", err)
	}
	return nil
}

// insertApproval stores a new approval, and sets its ID.
func insertApproval(ctx context.Context, q *dbsql.Queries, a *approval.Approval) error {
	id, err := q.CreateApproval(ctx, dbsql.CreateApprovalParams{
		Ref: a.Ref, OrganizationID: a.Organization, Status: string(a.Status), Tool: a.Tool, Arguments: a.Arguments,
		RequestedBy: a.RequestedBy, AskedUser: a.AskedUser, InitiatedBy: append([]string{}, a.InitiatedBy...), RunID: a.Run, ServerID: a.Server, Description: a.Description,
		DecidedBy: a.DecidedBy, DecidedAt: optionalTime(a.DecidedAt), DecidedVia: a.Via, Reason: a.Reason,
		CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
	})
	if err != nil {
		return fmt.Errorf("insert: %w", err)
	}
	a.ID = id
	return nil
}

// Get implements approval.Store.
func (s *Approvals) Get(ctx context.Context, organization, ref string) (approval.Approval, error) {
	q := dbsql.New(s.control.pool)
	row, err := q.GetApproval(ctx, dbsql.GetApprovalParams{Ref: ref, OrganizationID: organization})
	if err != nil {
		return approval.Approval{}, fmt.Errorf("get approval: %w", orMissing(err, approval.ErrNotFound))
	}
	a := approvalOf(&row)
	if err := withCalls(ctx, q, &a); err != nil {
		return approval.Approval{}, err
	}
	return a, nil
}

// Decide implements approval.Store.
func (s *Approvals) Decide(
	ctx context.Context, organization, ref string, d approval.Decision, now time.Time, entry *audit.Entry,
) (approval.Approval, error) {
	var decided approval.Approval
	err := s.control.Change(ctx, control.Approvals, entry, func(ctx context.Context, q *dbsql.Queries, _ int64) error {
		row, err := q.LockApproval(ctx, dbsql.LockApprovalParams{Ref: ref, OrganizationID: organization})
		if err != nil {
			return orMissing(err, approval.ErrNotFound)
		}
		a := approvalOf(&row)
		if err := withCalls(ctx, q, &a); err != nil {
			return err
		}
		if decided, err = a.Decide(d, now); err != nil {
			return err
		}
		return storeDecision(ctx, q, &decided, entry)
	})
	if err != nil {
		return approval.Approval{}, fmt.Errorf("decide approval: %w", err)
	}
	return decided, nil
}

// storeDecision stores a decision that was made, with the details of its audit entry and its event.
func storeDecision(ctx context.Context, q *dbsql.Queries, decided *approval.Approval, entry *audit.Entry) error {
	entry.Details = approvalDetails(*decided)
	if err := q.DecideApproval(ctx, dbsql.DecideApprovalParams{
		ID: decided.ID, Status: string(decided.Status), DecidedBy: decided.DecidedBy, DecidedAt: decided.DecidedAt,
		DecidedVia: decided.Via, Reason: decided.Reason,
	}); err != nil {
		return fmt.Errorf("decide: %w", err)
	}
	return addHouseEvent(ctx, q, approvalEvent(*decided, houseevent.ApprovalDecided))
}

// List implements approval.Store.
func (s *Approvals) List(ctx context.Context, f approval.Filter, now time.Time) ([]approval.Approval, error) {
	q := dbsql.New(s.control.pool)
	rows, err := q.ListApprovals(ctx, dbsql.ListApprovalsParams{
		OrganizationID: f.Organization, Status: string(f.Status), RunID: f.Run, Tool: f.Tool,
		Before: f.Before, Now: now, Count: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	approvals, pointers := make([]approval.Approval, len(rows)), make([]*approval.Approval, len(rows))
	for i := range rows {
		approvals[i] = approvalOf(&rows[i])
		pointers[i] = &approvals[i]
	}
	if err := withCalls(ctx, q, pointers...); err != nil {
		return nil, err
	}
	for i := range approvals {
		approvals[i] = approvals[i].At(now)
	}
	return approvals, nil
}

// approvalEvent returns what an organization is told of an approval.
func approvalEvent(a approval.Approval, eventType string) event.Report {
	data := map[string]any{
		"organization_id": a.Organization, "ref": a.Ref, "status": a.Status, "server_id": a.Server, "tool": a.Tool, "run_id": a.Run,
		"requested_by": a.RequestedBy, "decided_by": a.DecidedBy, "decided_via": a.Via, "expires_at": a.ExpiresAt,
		"call_digest": "", "rule": "", "approvers": "", "proof": "",
	}
	if x := a.Call; x != nil {
		data["call_digest"], data["rule"] = hex.EncodeToString(x.Digest[:]), x.Rule
		data["approvers"], data["proof"] = x.Approvers, proofOf(x)
	}
	return event.Report{Organization: a.Organization, Type: eventType, Subject: "approval/" + a.Ref, Data: data}
}

// supersededEvent returns the event of an approval that ends at a moment, because another one takes its
// place.
func supersededEvent(a approval.Approval, by string, now time.Time) event.Report {
	a.Status, a.ExpiresAt = approval.Superseded, now
	report := approvalEvent(a, houseevent.ApprovalSuperseded)
	delete(report.Data, "decided_by")
	delete(report.Data, "decided_via")
	report.Data["superseded_by"] = by
	return report
}

// approvalDetails returns what the audit log records of an approval. Arguments may hold anything, so they are left out.
func approvalDetails(a approval.Approval) json.RawMessage {
	fields := map[string]any{
		"status": a.Status, "tool": a.Tool, "run_id": a.Run, "requested_by": a.RequestedBy, "decided_by": a.DecidedBy,
		"expires_at": a.ExpiresAt, "decided_via": a.Via,
	}
	if x := a.Call; x != nil {
		fields["server_id"], fields["rule"], fields["policy_version"] = a.Server, x.Rule, x.Policy
		fields["call_digest"], fields["definition_digest"] = hex.EncodeToString(x.Digest[:]), hex.EncodeToString(x.Definition[:])
		fields["standing_id"], fields["unknown_ref"] = x.StandingRef, x.UnknownRef
	}
	return details(fields)
}

// details returns an audit entry's details without empty fields.
func details(fields map[string]any) json.RawMessage {
	for name, value := range fields {
		if value == "" {
			delete(fields, name)
		}
	}
	text, err := json.Marshal(fields)
	if err != nil {
		return nil // Texts and times always marshal.
	}
	return text
}

func approvalOf(r *dbsql.Approval) approval.Approval {
	a := approval.Approval{
		ID: r.ID, Ref: r.Ref, Organization: r.OrganizationID, Status: approval.Status(r.Status),
		Tool: r.Tool, Arguments: r.Arguments, RequestedBy: r.RequestedBy, Run: r.RunID, Server: r.ServerID, Description: r.Description,
		DecidedBy: r.DecidedBy, DecidedAt: r.DecidedAt.Time, Reason: r.Reason, Via: r.DecidedVia,
		AskedUser: r.AskedUser, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}
	if len(r.InitiatedBy) > 0 {
		a.InitiatedBy = r.InitiatedBy
	}
	return a
}
