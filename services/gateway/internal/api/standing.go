package api

import (
	"context"
	"encoding/hex"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// CreateStandingApproval approves further calls of a tool in advance.
func (s *approvalServer) CreateStandingApproval(ctx context.Context, m *gatewayv1.CreateStandingApprovalRequest) (*gatewayv1.StandingApproval, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err == nil {
		err = principal.Check("created_by", m.GetCreatedBy())
	}
	if err == nil {
		err = s.expressions.Check(organization, m.GetWhen())
	}
	if err != nil {
		return nil, err
	}
	now := present()
	entry := audit.New(ctx, "standing_approval.create", audit.Subject{Type: "standing_approval", Organization: organization}, m.GetReason())
	made, err := s.approvals.CreateStanding(ctx, organization, approval.StandingApproval{
		Approval: m.GetApprovalRef(), When: m.GetWhen(), Uses: int(m.GetUses()), CreatedBy: m.GetCreatedBy(), Reason: m.GetReason(),
		ExpiresAt: now.Add(time.Duration(m.GetTtlSeconds()) * time.Second),
	}, caller.From(ctx).User, now, &entry)
	if err != nil {
		return nil, fmt.Errorf("standing approval: %w", err)
	}
	rpc.SetStatus(ctx, http.StatusCreated)
	return fromStanding(&made, now), nil
}

// ListStandingApprovals returns a page of an organization's standing approvals.
func (s *approvalServer) ListStandingApprovals(ctx context.Context, m *gatewayv1.ListStandingApprovalsRequest) (*gatewayv1.ListStandingApprovalsResponse, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	page := newKeyset("standing", organization, m.GetServerId(), m.GetTool())
	before, err := page.number(m.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.approvals.ListStanding(ctx, approval.StandingFilter{
		Organization: organization, Server: m.GetServerId(), Tool: m.GetTool(), Before: before, Limit: limit + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("standing approvals: %w", err)
	}
	out, now := &gatewayv1.ListStandingApprovalsResponse{}, present()
	for i := range found {
		if i == limit {
			out.NextCursor = page.cursor(strconv.FormatInt(found[i-1].ID, 10))
			break
		}
		out.StandingApprovals = append(out.StandingApprovals, fromStanding(&found[i], now))
	}
	return out, nil
}

// RevokeStandingApproval ends a standing approval.
func (s *approvalServer) RevokeStandingApproval(ctx context.Context, m *gatewayv1.RevokeStandingApprovalRequest) (*emptypb.Empty, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	by := orActor(ctx, m.GetRevokedBy())
	if err == nil {
		err = principal.Check("revoked_by", by)
	}
	if err != nil {
		return nil, err
	}
	entry := audit.New(ctx, "standing_approval.revoke", audit.Subject{Type: "standing_approval", ID: m.GetStandingId(), Organization: organization}, m.GetReason())
	if err := s.approvals.RevokeStanding(ctx, organization, m.GetStandingId(), by, present(), &entry); err != nil {
		return nil, fmt.Errorf("standing approval: %w", err)
	}
	rpc.SetStatus(ctx, http.StatusNoContent)
	return &emptypb.Empty{}, nil
}

func fromStanding(s *approval.StandingApproval, now time.Time) *gatewayv1.StandingApproval {
	return &gatewayv1.StandingApproval{
		StandingId: s.Ref, OrganizationId: s.Organization, Status: s.StatusAt(now), ServerId: s.Server, Tool: s.Tool,
		DefinitionDigest: hex.EncodeToString(s.Definition[:]), When: s.When, Uses: int32(s.Uses), Used: int32(s.Used),
		ApprovalRef: s.Approval, CreatedBy: s.CreatedBy, Reason: toNullable(s.Reason),
		CreatedAt: timestamppb.New(s.CreatedAt), ExpiresAt: timestamppb.New(s.ExpiresAt),
		RevokedBy: toNullable(s.RevokedBy), RevokedAt: optionalTime(s.RevokedAt),
	}
}
