package api

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"strconv"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/principal"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// trustServer serves organizations' trust levels of MCP servers.
type trustServer struct {
	gatewayv1.UnimplementedTrustServiceServer

	records trust.Store
}

// AssignTrust records a trust level.
func (s *trustServer) AssignTrust(ctx context.Context, m *gatewayv1.AssignTrustRequest) (*gatewayv1.TrustRecord, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err == nil {
		err = principal.Check("assigned_by", m.GetAssignedBy())
	}
	if err != nil {
		return nil, err
	}
	entry := audit.New(ctx, "trust.assign", trustSubject(organization, m.GetServerId()), m.GetReason())
	record, err := s.records.Assign(ctx, trust.Assignment{
		Organization: organization, Server: m.GetServerId(), Level: trust.Level(m.GetLevel()), By: m.GetAssignedBy(), Reason: m.GetReason(),
	}, present(), &entry)
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	rpc.SetStatus(ctx, http.StatusCreated)
	return fromTrust(record), nil
}

// ReviewTrust records a decision on the present record of a server.
func (s *trustServer) ReviewTrust(ctx context.Context, m *gatewayv1.ReviewTrustRequest) (*gatewayv1.TrustRecord, error) {
	organization, err := organizationIn(ctx, m, m.GetOrgId())
	if err == nil {
		err = principal.Check("reviewed_by", m.GetReviewedBy())
	}
	if err != nil {
		return nil, err
	}
	verdict := cmp.Or(trust.Verdict(m.GetDecision()), trust.Approve)
	entry := audit.New(ctx, "trust."+string(verdict), trustSubject(organization, m.GetServerId()), m.GetReason())
	record, err := s.records.Review(ctx, organization, m.GetServerId(), trust.Review{
		Verdict: verdict, By: m.GetReviewedBy(), Reason: m.GetReason(), Version: int(m.GetExpectedVersion()), User: caller.From(ctx).User,
	}, present(), &entry)
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	return fromTrust(record), nil
}

// ListTrust returns a page of an organization's present records.
func (s *trustServer) ListTrust(ctx context.Context, m *gatewayv1.ListTrustRequest) (*gatewayv1.ListTrustResponse, error) {
	organization, err := organizationIn(ctx, m, m.GetOrgId())
	if err != nil {
		return nil, err
	}
	page := newKeyset("trust", organization, m.GetReviewStatus())
	after, err := page.read(m.GetCursor(), 1)
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.records.Present(ctx, organization, trust.Status(m.GetReviewStatus()), after[0], limit+1)
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	out := &gatewayv1.ListTrustResponse{}
	for i, record := range found {
		if i == limit {
			out.NextCursor = page.cursor(found[i-1].Server)
			break
		}
		out.Records = append(out.Records, fromTrust(record))
	}
	return out, nil
}

// ListTrustHistory returns a page of a server's records; none for a server that was
// never assigned a level.
func (s *trustServer) ListTrustHistory(
	ctx context.Context, m *gatewayv1.ListTrustHistoryRequest,
) (*gatewayv1.ListTrustHistoryResponse, error) {
	organization, err := organizationIn(ctx, m, m.GetOrgId())
	if err != nil {
		return nil, err
	}
	page := newKeyset("trust history", organization, m.GetServerId())
	below, err := page.number(m.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.records.History(ctx, organization, m.GetServerId(), int(below), limit+1)
	if err != nil {
		return nil, fmt.Errorf("trust: %w", err)
	}
	out := &gatewayv1.ListTrustHistoryResponse{}
	for i, record := range found {
		if i == limit {
			out.NextCursor = page.cursor(strconv.Itoa(found[i-1].Version))
			break
		}
		out.Records = append(out.Records, fromTrust(record))
	}
	return out, nil
}

func trustSubject(organization, server string) audit.Subject {
	return audit.Subject{Type: "trust_record", ID: server, Organization: organization}
}

func fromTrust(r trust.Record) *gatewayv1.TrustRecord {
	return &gatewayv1.TrustRecord{
		OrganizationId: r.Organization, ServerId: r.Server, Level: string(r.Level), EffectiveLevel: string(r.Effective),
		ReviewStatus: string(r.Status), AssignedBy: r.AssignedBy, AssignedAt: timestamppb.New(r.AssignedAt),
		AssignReason: toNullable(r.AssignReason), ReviewedBy: toNullable(r.ReviewedBy), ReviewedAt: optionalTime(r.ReviewedAt),
		ReviewReason: toNullable(r.ReviewReason), Version: int32(r.Version),
	}
}
