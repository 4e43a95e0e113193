package api

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/rpc"
)

// Runs stores the authorities of runs.
type Runs interface {
	// Mint creates an authority, below its parent if it has one; of mostDepth runs above the parent, the parent ends.
	Mint(ctx context.Context, of run.Run, mostDepth int) (run.Run, error)
	// Get returns a run; found is false if it was neither minted nor aborted.
	Get(ctx context.Context, organization, id string) (of run.Run, found bool, err error)
	// List returns runs and their usage as they are now.
	List(ctx context.Context, f run.Filter, now time.Time) ([]run.Used, error)
	Revoke(ctx context.Context, organization, id, by, reason string) (run.Run, error)
	Abort(ctx context.Context, organization, id, by, reason string) (run.Run, error)
	Usage(ctx context.Context, organization, id string) (run.Usage, error)
	// Sessions returns sessions with their runs and their stored usage.
	Sessions(ctx context.Context, f run.SessionFilter) ([]run.Used, error)
	// OrganizationOf returns the organization of a run id if only one organization has it.
	OrganizationOf(ctx context.Context, id string) (string, error)
}

// CallCounter counts the calls in flight on this replica.
type CallCounter interface {
	InFlight(organization, id string) int64
}

const (
	// defaultLife is the lifetime of an authority without an end.
	defaultLife = 24 * time.Hour
	// maxLife is the longest lifetime.
	maxLife = 30 * 24 * time.Hour
)

// runServer serves the authorities of runs and their sessions.
type runServer struct {
	gatewayv1.UnimplementedRunServiceServer
	gatewayv1.UnimplementedSessionServiceServer

	runs  Runs
	calls CallCounter
	// mostDepth returns how many runs may be above another.
	mostDepth func() int
}

// MintRun creates an authority.
func (s *runServer) MintRun(ctx context.Context, m *gatewayv1.MintRunRequest) (*gatewayv1.RunAuthority, error) {
	c := caller.From(ctx)
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	id, err := c.RunOf(m.GetRunId())
	if err != nil {
		return nil, err
	}
	now := time.Now()
	expires, err := expiry(m, now)
	if err == nil {
		err = checkCents("max_cost_cents", m.GetMaxCostCents())
	}
	if err != nil {
		return nil, err
	}
	minted, err := s.runs.Mint(ctx, run.Run{
		Organization: organization, ID: cmp.Or(id, "run_"+strings.ToLower(rand.Text())),
		Parent: m.GetParentRunId(), InitiatedBy: cmp.Or(m.GetInitiatedBy(), actor(ctx)), ApprovalRef: m.GetApprovalRef(), Metadata: m.GetMetadata(),
		Limits: run.Limits{
			MaxCostCents: m.GetMaxCostCents(), MaxCalls: int(m.GetMaxCalls()), Models: m.GetModels(), ExpiresAt: expires,
			AllowedTools: m.GetAllowedTools(), MaxToolCalls: int(m.GetMaxToolCalls()),
		},
	}, s.mostDepth())
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	rpc.SetStatus(ctx, http.StatusCreated)
	return toAuthority(minted, run.Usage{}), nil
}

// expiry returns when an authority ends; the zero time is the end of its parent.
func expiry(m *gatewayv1.MintRunRequest, now time.Time) (time.Time, error) {
	switch at := m.GetExpiresAt(); {
	case at != nil && m.TtlSeconds != nil:
		return time.Time{}, apierr.Invalid("ttl_seconds", "only without expires_at")
	case m.TtlSeconds != nil:
		return now.Add(time.Duration(m.GetTtlSeconds()) * time.Second), nil
	case at == nil && m.GetParentRunId() != "":
		return time.Time{}, nil
	case at == nil:
		return now.Add(defaultLife), nil
	case !at.IsValid():
		return time.Time{}, apierr.Invalid("expires_at", "must be a time")
	case !at.AsTime().After(now):
		return time.Time{}, apierr.Invalid("expires_at", "must be in the future")
	case at.AsTime().After(now.Add(maxLife)):
		return time.Time{}, apierr.Invalid("expires_at", "must be within 30 days")
	default:
		return at.AsTime(), nil
	}
}

// GetRunAuthority returns an authority in its present state.
func (s *runServer) GetRunAuthority(ctx context.Context, m *gatewayv1.GetRunAuthorityRequest) (*gatewayv1.RunAuthority, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	of, _, err := s.runs.Get(ctx, organization, m.GetRunId())
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	if of.Status == run.Unminted {
		return nil, run.ErrNotFound
	}
	return s.authority(ctx, of)
}

// RevokeRun ends an authority for good.
func (s *runServer) RevokeRun(ctx context.Context, m *gatewayv1.RevokeRunRequest) (*gatewayv1.RunAuthority, error) {
	organization, err := organizationOf(ctx, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	of, err := s.runs.Revoke(ctx, organization, m.GetRunId(), cmp.Or(m.GetRevokedBy(), actor(ctx)), m.GetReason())
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return s.authority(ctx, of)
}

func (s *runServer) authority(ctx context.Context, of run.Run) (*gatewayv1.RunAuthority, error) {
	usage, err := s.runs.Usage(ctx, of.Organization, of.ID)
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	return toAuthority(of.At(time.Now(), usage), usage), nil
}

// AbortSession stops a session: its calls in flight end and further ones are refused.
func (s *runServer) AbortSession(ctx context.Context, m *gatewayv1.AbortSessionRequest) (*gatewayv1.SessionAbort, error) {
	organization, err := s.sessionOf(ctx, m.GetRunId(), m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	of, err := s.runs.Abort(ctx, organization, m.GetRunId(), actor(ctx), m.GetReason())
	if err != nil {
		return nil, fmt.Errorf("run: %w", err)
	}
	usage, err := s.usage(ctx, organization, m.GetRunId())
	if err != nil {
		return nil, err
	}
	return &gatewayv1.SessionAbort{
		RunId: m.GetRunId(), OrganizationId: organization, Status: of.SessionStatus(time.Now(), usage), AbortRequested: true,
		AbortRequestedAt: timestamppb.New(of.Abort.RequestedAt), RequestedBy: of.Abort.By, Reason: optionalText(of.Abort.Reason),
	}, nil
}

// GetSessionSpend returns what a session spends.
func (s *runServer) GetSessionSpend(ctx context.Context, m *gatewayv1.GetSessionSpendRequest) (*gatewayv1.SessionSpend, error) {
	organization, err := s.sessionOf(ctx, m.GetRunId(), m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	of, usage, err := s.session(ctx, organization, m.GetRunId())
	if err != nil {
		return nil, err
	}
	spend := &gatewayv1.SessionSpend{
		RunId: m.GetRunId(), OrganizationId: organization, SpentCents: usage.SpentCents, ReservedCents: usage.ReservedCents,
		Calls: clamp(usage.Calls + usage.InFlight), Status: of.SessionStatus(time.Now(), usage), InFlight: clamp(usage.InFlight),
		StartedAt: optionalTime(usage.FirstCallAt), LastCallAt: optionalTime(usage.LastCallAt),
	}
	if limit := of.Limits.MaxCostCents; limit > 0 {
		spend.MaxCostCents = wrapperspb.Double(limit)
	}
	return spend, nil
}

// usage returns the stored usage of a session with the calls in flight on this replica.
func (s *runServer) usage(ctx context.Context, organization, id string) (run.Usage, error) {
	usage, err := s.runs.Usage(ctx, organization, id)
	if err != nil {
		return run.Usage{}, fmt.Errorf("run: %w", err)
	}
	return s.withCalls(organization, id, usage), nil
}

// sessionOf returns the organization of an operator's session, which may be omitted if only one organization has a run
// of the id.
func (s *runServer) sessionOf(ctx context.Context, id, organization string) (string, error) {
	c := caller.From(ctx)
	if organization != "" || c.Organization != "" {
		return organizationOf(ctx, organization)
	}
	found, err := s.runs.OrganizationOf(ctx, id)
	if err != nil {
		return "", fmt.Errorf("run: %w", err)
	}
	return found, nil
}

// organizationOf returns the organization of a request, if it is in the form that callers' organizations have.
func organizationOf(ctx context.Context, field string) (string, error) {
	if !caller.Printable(field) {
		return "", apierr.Invalid("organization_id", "must be printable ASCII without spaces")
	}
	return caller.From(ctx).OrganizationOf(field)
}

func toAuthority(of run.Run, usage run.Usage) *gatewayv1.RunAuthority {
	m := &gatewayv1.RunAuthority{
		RunId: of.ID, OrganizationId: of.Organization, Status: string(of.Status), InitiatedBy: of.InitiatedBy,
		Models: of.Limits.Models, ExpiresAt: timestamppb.New(of.Limits.ExpiresAt),
		SpentCents: usage.SpentCents, ReservedCents: usage.ReservedCents, Calls: clamp(usage.Calls + usage.InFlight),
		ApprovalRef: optionalText(of.ApprovalRef), Metadata: of.Metadata,
		CreatedAt: timestamppb.New(of.CreatedAt), ActivatedAt: optionalTime(of.ActivatedAt), EndedAt: optionalTime(of.EndedAt),
		RevokedBy: optionalText(of.RevokedBy), RevokeReason: optionalText(of.RevokeReason), AbortRequested: of.Abort.Requested(),
		AllowedTools: of.Limits.AllowedTools, ToolCalls: clamp(usage.ToolCalls + usage.ToolsInFlight), EndReason: optionalText(string(of.EndReason)),
		ParentRunId: optionalText(of.Parent), Depth: int32(of.Depth),
	}
	if limit := of.Limits.MaxCostCents; limit > 0 {
		m.MaxCostCents = wrapperspb.Double(limit)
	}
	if limit := of.Limits.MaxCalls; limit > 0 {
		m.MaxCalls = wrapperspb.Int32(int32(limit))
	}
	if limit := of.Limits.MaxToolCalls; limit > 0 {
		m.MaxToolCalls = wrapperspb.Int32(int32(limit))
	}
	return m
}
