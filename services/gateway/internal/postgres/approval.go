package postgres

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
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
		if err := q.CreateApproval(ctx, dbsql.CreateApprovalParams{
			Ref: a.Ref, OrganizationID: a.Organization, Tool: a.Tool, Arguments: a.Arguments, RequestedBy: a.RequestedBy,
			RunID: a.Run, ServerID: a.Server, Description: a.Description, CreatedAt: a.CreatedAt, ExpiresAt: a.ExpiresAt,
		}); err != nil {
			return err
		}
		return addHouseEvent(ctx, q, approvalEvent(a, houseevent.ApprovalPending))
	})
	if err != nil {
		return fmt.Errorf("create approval: %w", err)
	}
	return nil
}

// Get implements approval.Store.
func (s *Approvals) Get(ctx context.Context, organization, ref string) (approval.Approval, error) {
	row, err := dbsql.New(s.control.pool).GetApproval(ctx, dbsql.GetApprovalParams{Ref: ref, OrganizationID: organization})
	if err != nil {
		return approval.Approval{}, fmt.Errorf("get approval: %w", orMissing(err, approval.ErrNotFound))
	}
	return approvalOf(&row), nil
}

// Decide implements approval.Store.
func (s *Approvals) Decide(
	ctx context.Context, organization, ref string, d approval.Decision, now time.Time, entry *audit.Entry,
) (approval.Approval, error) {
	var decided approval.Approval
	err := s.control.Record(ctx, entry, func(ctx context.Context, q *dbsql.Queries) error {
		row, err := q.LockApproval(ctx, dbsql.LockApprovalParams{Ref: ref, OrganizationID: organization})
		if err != nil {
			return orMissing(err, approval.ErrNotFound)
		}
		if decided, err = approvalOf(&row).Decide(d, now); err != nil {
			return err
		}
		entry.Details = approvalDetails(decided)
		if err := q.DecideApproval(ctx, dbsql.DecideApprovalParams{
			ID: row.ID, Status: string(decided.Status), DecidedBy: decided.DecidedBy, DecidedAt: decided.DecidedAt, Reason: decided.Reason,
		}); err != nil {
			return err
		}
		return addHouseEvent(ctx, q, approvalEvent(decided, houseevent.ApprovalDecided))
	})
	if err != nil {
		return approval.Approval{}, fmt.Errorf("decide approval: %w", err)
	}
	return decided, nil
}

// List implements approval.Store.
func (s *Approvals) List(ctx context.Context, f approval.Filter, now time.Time) ([]approval.Approval, error) {
	rows, err := dbsql.New(s.control.pool).ListApprovals(ctx, dbsql.ListApprovalsParams{
		OrganizationID: f.Organization, Status: string(f.Status), RunID: f.Run, Tool: f.Tool,
		Before: f.Before, Now: now, Count: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list approvals: %w", err)
	}
	approvals := make([]approval.Approval, len(rows))
	for i := range rows {
		approvals[i] = approvalOf(&rows[i]).At(now)
	}
	return approvals, nil
}

// approvalEvent returns what an organization is told of an approval.
func approvalEvent(a approval.Approval, eventType string) event.Report {
	return event.Report{Organization: a.Organization, Type: eventType, Subject: "approval/" + a.Ref, Data: map[string]any{
		"organization_id": a.Organization, "ref": a.Ref, "status": a.Status, "tool": a.Tool, "run_id": a.Run,
		"requested_by": a.RequestedBy, "decided_by": a.DecidedBy, "expires_at": a.ExpiresAt,
		"server_id": a.Server, "call_digest": "", "rule": "", "approvers": "", "proof": "", "decided_via": "",
	}}
}

// approvalDetails returns what the audit log records of an approval. Arguments may hold anything, so they are left out.
func approvalDetails(a approval.Approval) json.RawMessage {
	return details(map[string]any{
		"status": a.Status, "tool": a.Tool, "run_id": a.Run, "requested_by": a.RequestedBy, "decided_by": a.DecidedBy,
		"expires_at": a.ExpiresAt,
	})
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
	return approval.Approval{
		ID: r.ID, Ref: r.Ref, Organization: r.OrganizationID, Status: approval.Status(r.Status),
		Tool: r.Tool, Arguments: r.Arguments, RequestedBy: r.RequestedBy, Run: r.RunID, Server: r.ServerID, Description: r.Description,
		DecidedBy: r.DecidedBy, DecidedAt: r.DecidedAt.Time, Reason: r.Reason, CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt,
	}
}
