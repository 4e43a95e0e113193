package api

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/run"
)

// ListSessions returns a page of an organization's sessions.
func (s *runServer) ListSessions(ctx context.Context, m *gatewayv1.ListSessionsRequest) (*gatewayv1.ListSessionsResponse, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	page := newKeyset("sessions", organization, strconv.FormatBool(m.GetInFlight()))
	last, err := page.read(m.GetCursor(), 1)
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	found, err := s.runs.Sessions(ctx, run.SessionFilter{Organization: organization, InFlight: m.GetInFlight(), After: last[0], Limit: limit + 1})
	if err != nil {
		return nil, fmt.Errorf("sessions: %w", err)
	}
	out := &gatewayv1.ListSessionsResponse{}
	if len(found) > limit {
		found = found[:limit]
		out.NextCursor = page.cursor(found[limit-1].Run.ID)
	}
	now := time.Now()
	for _, used := range found {
		out.Sessions = append(out.Sessions, toSession(used.Run, s.withCalls(organization, used.Run.ID, used.Usage), now))
	}
	return out, nil
}

// GetSession returns a session of the caller's organization.
func (s *runServer) GetSession(ctx context.Context, m *gatewayv1.GetSessionRequest) (*gatewayv1.Session, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	of, usage, err := s.session(ctx, organization, m.GetRunId())
	if err != nil {
		return nil, err
	}
	return toSession(of, usage, time.Now()), nil
}

// AbortOwnSession stops a session of the caller's organization. It must be known, so that no caller stores ids at will.
func (s *runServer) AbortOwnSession(ctx context.Context, m *gatewayv1.AbortOwnSessionRequest) (*gatewayv1.Session, error) {
	organization, err := organizationIn(ctx, m, m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	if _, _, err := s.session(ctx, organization, m.GetRunId()); err != nil {
		return nil, err
	}
	of, err := s.runs.Abort(ctx, organization, m.GetRunId(), actor(ctx), m.GetReason())
	if err != nil {
		return nil, fmt.Errorf("session: %w", err)
	}
	usage, err := s.usage(ctx, organization, m.GetRunId())
	if err != nil {
		return nil, err
	}
	return toSession(of, usage, time.Now()), nil
}

// session returns a session and its usage. The error is run.ErrNotFound for one that was never called, minted or
// aborted in the organization.
func (s *runServer) session(ctx context.Context, organization, id string) (of run.Run, usage run.Usage, err error) {
	of, found, err := s.runs.Get(ctx, organization, id)
	if err != nil {
		return run.Run{}, run.Usage{}, fmt.Errorf("session: %w", err)
	}
	if usage, err = s.usage(ctx, organization, id); err != nil {
		return run.Run{}, run.Usage{}, err
	}
	if !found && usage == (run.Usage{}) {
		return run.Run{}, run.Usage{}, run.ErrNotFound
	}
	of.Organization, of.ID = organization, id
	return of, usage, nil
}

// withCalls returns a session's usage with its calls in flight on this replica.
func (s *runServer) withCalls(organization, id string, usage run.Usage) run.Usage {
	usage.InFlight = max(usage.InFlight, usage.Elsewhere+s.calls.InFlight(organization, id))
	return usage
}

// toSession leaves out who asked a session to stop and why: that may have been an operator.
func toSession(of run.Run, usage run.Usage, now time.Time) *gatewayv1.Session {
	m := &gatewayv1.Session{
		RunId: of.ID, OrganizationId: of.Organization, Status: of.SessionStatus(now, usage),
		SpentCents: usage.SpentCents, ReservedCents: usage.ReservedCents, Calls: clamp(usage.Calls + usage.InFlight), InFlight: clamp(usage.InFlight),
		StartedAt: optionalTime(usage.FirstCallAt), LastCallAt: optionalTime(usage.LastCallAt),
		AbortRequested: of.Abort.Requested(), AbortRequestedAt: optionalTime(of.Abort.RequestedAt),
	}
	if limit := of.Limits.MaxCostCents; limit > 0 {
		m.MaxCostCents = wrapperspb.Double(limit)
	}
	if limit := of.Limits.MaxCalls; limit > 0 {
		m.MaxCalls = wrapperspb.Int32(int32(limit))
	}
	return m
}
