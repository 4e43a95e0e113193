package postgres

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/postgres/dbsql"
)

// useStanding decides an approval by a standing one, if there is one for the call, and counts its use.
func useStanding(ctx context.Context, q *dbsql.Queries, asked *approval.Asked, a *approval.Approval, now time.Time) error {
	if !asked.StandingAllowed {
		return nil
	}
	rows, err := q.ActiveStanding(ctx, dbsql.ActiveStandingParams{
		OrganizationID: a.Organization, ServerID: a.Server, Tool: a.Tool, Now: now, Most: approval.MaxStanding,
	})
	if err != nil {
		return fmt.Errorf("standing approvals: %w", err)
	}
	for i := range rows {
		s := standingOf(&rows[i])
		if !s.Covers(asked, a) || !asked.Matches(s.When) {
			continue
		}
		used, err := q.UseStanding(ctx, dbsql.UseStandingParams{ID: s.ID, Now: now})
		if err != nil {
			return fmt.Errorf("use standing approval: %w", err)
		}
		if used == 1 {
			a.Status, a.DecidedBy, a.DecidedAt, a.Via, a.Call.StandingRef = approval.Approved, s.CreatedBy, now, approval.ViaStanding, s.Ref
			return nil
		}
	}
	return nil
}

// CreateStanding implements approval.StandingStore.
func (s *Approvals) CreateStanding(
	ctx context.Context, organization string, wanted approval.StandingApproval, user string, now time.Time, entry *audit.Entry,
) (made approval.StandingApproval, err error) {
	err = s.control.Record(ctx, entry, func(ctx context.Context, q *dbsql.Queries) error {
		row, err := q.LockApproval(ctx, dbsql.LockApprovalParams{Ref: wanted.Approval, OrganizationID: organization})
		if err != nil {
			return orMissing(err, approval.ErrNotFound)
		}
		a := approvalOf(&row)
		if err := withCalls(ctx, q, &a); err != nil {
			return err
		}
		if made, err = a.Stand(wanted, user, now); err != nil {
			return err
		}
		active, err := q.ActiveStanding(ctx, dbsql.ActiveStandingParams{
			OrganizationID: made.Organization, ServerID: made.Server, Tool: made.Tool, Now: now, Most: approval.MaxStanding,
		})
		if err != nil {
			return fmt.Errorf("standing approvals: %w", err)
		}
		if len(active) >= approval.MaxStanding {
			return approval.ErrManyStanding
		}
		entry.Subject, entry.Details = made.Ref, standingDetails(&made)
		made.ID, err = q.CreateStanding(ctx, dbsql.CreateStandingParams{
			Ref: made.Ref, OrganizationID: made.Organization, ServerID: made.Server, Tool: made.Tool, DefinitionDigest: made.Definition[:],
			Expression: made.When, Uses: int32(made.Uses), ApprovalRef: made.Approval, CreatedBy: made.CreatedBy, Reason: made.Reason,
			CreatedAt: made.CreatedAt, ExpiresAt: made.ExpiresAt,
		})
		return err
	})
	if err != nil {
		return approval.StandingApproval{}, fmt.Errorf("create standing approval: %w", err)
	}
	return made, nil
}

// ListStanding implements approval.StandingStore.
func (s *Approvals) ListStanding(ctx context.Context, f approval.StandingFilter) ([]approval.StandingApproval, error) {
	rows, err := dbsql.New(s.control.pool).ListStanding(ctx, dbsql.ListStandingParams{
		OrganizationID: f.Organization, Before: f.Before, ServerID: f.Server, Tool: f.Tool, Count: int32(f.Limit),
	})
	if err != nil {
		return nil, fmt.Errorf("list standing approvals: %w", err)
	}
	found := make([]approval.StandingApproval, len(rows))
	for i := range rows {
		found[i] = standingOf(&rows[i])
	}
	return found, nil
}

// RevokeStanding implements approval.StandingStore.
func (s *Approvals) RevokeStanding(ctx context.Context, organization, ref, by string, now time.Time, entry *audit.Entry) error {
	err := s.control.Record(ctx, entry, func(ctx context.Context, q *dbsql.Queries) error {
		row, err := q.RevokeStanding(ctx, dbsql.RevokeStandingParams{Ref: ref, OrganizationID: organization, RevokedBy: by, RevokedAt: now})
		if errors.Is(err, pgx.ErrNoRows) {
			return approval.ErrStandingNotFound
		}
		if err != nil {
			return err
		}
		revoked := standingOf(&row)
		entry.Details = standingDetails(&revoked)
		return nil
	})
	if err != nil {
		return fmt.Errorf("revoke standing approval: %w", err)
	}
	return nil
}

func standingDetails(s *approval.StandingApproval) []byte {
	return details(map[string]any{
		"server_id": s.Server, "tool": s.Tool, "when": s.When, "uses": s.Uses, "used": s.Used, "approval_ref": s.Approval,
		"created_by": s.CreatedBy, "expires_at": s.ExpiresAt, "revoked_by": s.RevokedBy,
	})
}

func standingOf(r *dbsql.StandingApproval) approval.StandingApproval {
	return approval.StandingApproval{
		ID: r.ID, Ref: r.Ref, Organization: r.OrganizationID, Server: r.ServerID, Tool: r.Tool, Definition: [32]byte(r.DefinitionDigest),
		When: r.Expression, Uses: int(r.Uses), Used: int(r.Used), Approval: r.ApprovalRef, CreatedBy: r.CreatedBy, Reason: r.Reason,
		CreatedAt: r.CreatedAt, ExpiresAt: r.ExpiresAt, RevokedBy: r.RevokedBy, RevokedAt: r.RevokedAt.Time,
	}
}
