package api

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// Purger erases cached answers; see package cache.
type Purger interface {
	Purge(ctx context.Context, organization string) (cache.Purged, error)
}

// organizationServer serves what concerns an organization as a whole.
type organizationServer struct {
	gatewayv1.UnimplementedOrganizationServiceServer

	answers       Purger
	organizations Organizations
}

// Organizations stores what operators set for organizations.
type Organizations interface {
	// SetStatus suspends or restores an organization and returns its status after that.
	SetStatus(ctx context.Context, id string, c organization.Change) (organization.Status, error)
	// SetBudget sets a ceiling; an empty period leaves the period unchanged.
	SetBudget(ctx context.Context, id string, b organization.Budget, reason string) error
	Spend(ctx context.Context, id string, now time.Time) (organization.Spend, error)
}

// SuspendOrganization suspends an organization: all its requests are refused.
func (s *organizationServer) SuspendOrganization(
	ctx context.Context, m *gatewayv1.SuspendOrganizationRequest,
) (*gatewayv1.OrganizationStatus, error) {
	return s.setStatus(ctx, m.GetOrgId(), m.GetReason(), true)
}

// UnsuspendOrganization restores a suspended organization.
func (s *organizationServer) UnsuspendOrganization(
	ctx context.Context, m *gatewayv1.UnsuspendOrganizationRequest,
) (*gatewayv1.OrganizationStatus, error) {
	return s.setStatus(ctx, m.GetOrgId(), m.GetReason(), false)
}

func (s *organizationServer) setStatus(ctx context.Context, id, reason string, suspended bool) (*gatewayv1.OrganizationStatus, error) {
	id, err := pathOrganization(ctx, id)
	if err != nil {
		return nil, err
	}
	status, err := s.organizations.SetStatus(ctx, id, organization.Change{
		Suspended: suspended, By: actor(ctx), Reason: reason, At: time.Now(),
	})
	if err != nil {
		return nil, fmt.Errorf("organization: %w", err)
	}
	return &gatewayv1.OrganizationStatus{
		OrganizationId: id, Suspended: status.Suspended, Reason: optionalText(status.Reason),
		SuspendedAt: optionalTime(status.SuspendedAt), SuspendedBy: optionalText(status.SuspendedBy), UpdatedAt: optionalTime(status.UpdatedAt),
	}, nil
}

// GetOrganizationSpend returns what an organization spends against its ceiling.
func (s *organizationServer) GetOrganizationSpend(
	ctx context.Context, m *gatewayv1.GetOrganizationSpendRequest,
) (*gatewayv1.OrganizationSpend, error) {
	id, err := pathOrganization(ctx, m.GetOrgId())
	if err != nil {
		return nil, err
	}
	return s.spend(ctx, id)
}

// SetOrganizationBudget sets an organization's ceiling.
func (s *organizationServer) SetOrganizationBudget(
	ctx context.Context, m *gatewayv1.SetOrganizationBudgetRequest,
) (*gatewayv1.OrganizationSpend, error) {
	id, err := pathOrganization(ctx, m.GetOrgId())
	if err != nil {
		return nil, err
	}
	if m.BudgetCeilingCents == nil {
		return nil, apierr.Invalid("budget_ceiling_cents", "is required; send 0 for no ceiling")
	}
	if err := checkCents("budget_ceiling_cents", m.GetBudgetCeilingCents()); err != nil {
		return nil, err
	}
	set := organization.Budget{CeilingCents: m.GetBudgetCeilingCents(), Period: organization.Period(m.GetPeriod())}
	for _, percent := range slices.Sorted(slices.Values(m.GetThresholds())) {
		set.Thresholds = append(set.Thresholds, int(percent))
	}
	if err := s.organizations.SetBudget(ctx, id, set, m.GetReason()); err != nil {
		return nil, fmt.Errorf("organization: %w", err)
	}
	return s.spend(ctx, id)
}

func (s *organizationServer) spend(ctx context.Context, id string) (*gatewayv1.OrganizationSpend, error) {
	spend, err := s.organizations.Spend(ctx, id, time.Now())
	if err != nil {
		return nil, fmt.Errorf("organization: %w", err)
	}
	of := spend.Organization
	m := &gatewayv1.OrganizationSpend{
		OrganizationId: id, SpentCents: spend.SpentCents, ReservedCents: spend.ReservedCents,
		BudgetCeilingCents: of.Budget.CeilingCents, ActiveSessions: clamp(int64(spend.ActiveSessions)),
		ActiveSessionsSpentCents: spend.ActiveSessionsCents, Period: string(of.Budget.Period),
		PeriodStart: optionalTime(spend.Start), PeriodEnd: optionalTime(spend.End), Suspended: of.Status.Suspended,
	}
	for _, percent := range of.Budget.Thresholds {
		m.Thresholds = append(m.Thresholds, int32(percent))
	}
	if left, limited := spend.Remaining(); limited {
		m.RemainingCents = wrapperspb.Double(left)
	}
	return m, nil
}

// pathOrganization returns the organization that a path names, if it is in the form that callers' organizations have.
func pathOrganization(ctx context.Context, id string) (string, error) {
	if !caller.Printable(id) {
		return "", apierr.Invalid("org_id", "must be printable ASCII without spaces")
	}
	c := caller.From(ctx)
	if c.Organization != "" && c.Organization != id {
		return "", apierr.New(apierr.KindForbidden, caller.ReasonOrganizationMismatch, "org_id: differs from the header "+caller.HeaderOrganization)
	}
	return id, nil
}

// actor returns the principal that a call is made for: the user that it names, else the caller.
func actor(ctx context.Context) string {
	c := caller.From(ctx)
	return cmp.Or(c.User, c.Name)
}

// optionalText returns null for the empty text, optionalTime for the zero time.
func optionalText(text string) *wrapperspb.StringValue {
	if text == "" {
		return nil
	}
	return wrapperspb.String(text)
}

func optionalTime(t time.Time) *timestamppb.Timestamp {
	if t.IsZero() {
		return nil
	}
	return timestamppb.New(t)
}

// PurgePromptCache erases an organization's cached answers.
func (s *organizationServer) PurgePromptCache(
	ctx context.Context, m *gatewayv1.PurgePromptCacheRequest,
) (*gatewayv1.PurgePromptCacheResponse, error) {
	organization, err := caller.From(ctx).OrganizationOf(m.GetOrganizationId())
	if err != nil {
		return nil, err
	}
	purged, err := s.answers.Purge(ctx, organization)
	if err != nil {
		return nil, fmt.Errorf("purge cache: %w", err)
	}
	return &gatewayv1.PurgePromptCacheResponse{
		OrganizationId: organization, Purged: int32(purged.Count), PurgedAt: timestamppb.New(purged.At),
	}, nil
}
