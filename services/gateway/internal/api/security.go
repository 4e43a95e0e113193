package api

import (
	"context"
	"fmt"
	"math"
	"strconv"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/custody/exposure"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
)

// AuditLog lists the changes.
type AuditLog interface {
	// List returns a page, newest first.
	List(ctx context.Context, f audit.Filter) ([]audit.Entry, error)
}

// defaultRadius is the default size of the lists of a blast radius.
const defaultRadius = 200

// securityServer serves what a leaked key affects and who changed what.
type securityServer struct {
	gatewayv1.UnimplementedSecurityServiceServer

	exposure exposure.Store
	audit    AuditLog
	// canonical returns a provider's name for an alias.
	canonical func(name string) (string, bool)
}

// GetBlastRadius returns who used a provider's credential. A provider that is no longer in the policy may still be in
// the ledger.
func (s *securityServer) GetBlastRadius(ctx context.Context, m *gatewayv1.GetBlastRadiusRequest) (*gatewayv1.BlastRadius, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	since, until, err := toWindow(m.GetSince(), m.GetUntil())
	if err != nil {
		return nil, err
	}
	provider := m.GetProvider()
	if name, ok := s.canonical(provider); ok {
		provider = name
	}
	limit := int(m.GetLimit())
	if limit == 0 {
		limit = defaultRadius
	}
	radius, err := s.exposure.Radius(ctx, exposure.Query{
		Provider: provider, Fingerprint: m.GetFingerprint(), Since: since, Until: until, Limit: limit,
	})
	if err != nil {
		return nil, fmt.Errorf("blast radius: %w", err)
	}
	if until.IsZero() {
		until = present()
	}
	out := fromRadius(&radius)
	out.Provider, out.Fingerprint, out.Since, out.Until = provider, toNullable(m.GetFingerprint()), optionalTime(since), optionalTime(until)
	return out, nil
}

// toWindow returns the two ends of a time window; a zero time is an open end.
func toWindow(from, to *timestamppb.Timestamp) (since, until time.Time, err error) {
	if since, err = toMoment("since", from); err != nil {
		return since, until, err
	}
	if until, err = toMoment("until", to); err != nil {
		return since, until, err
	}
	if !since.IsZero() && !until.IsZero() && !since.Before(until) {
		return since, until, apierr.Invalid("until", "must be after since")
	}
	return since, until, nil
}

// Whose credential was used.
const (
	credentialFleet = "fleet"
	credentialByok  = "byok"
	credentialBoth  = "both"
)

func fromRadius(r *exposure.Radius) *gatewayv1.BlastRadius {
	out := &gatewayv1.BlastRadius{
		Calls: toCount(r.Calls), FirstUsedAt: optionalTime(r.First), LastUsedAt: optionalTime(r.Last), CostCents: r.CostCents,
		OrganizationCount: int32(r.OrganizationCount), ServiceCount: int32(r.ServiceCount), RunCount: int32(r.RunCount),
		Truncated: r.Truncated(),
	}
	for _, o := range r.Organizations {
		credential := credentialFleet
		switch {
		case o.Fleet && o.Byok:
			credential = credentialBoth
		case o.Byok:
			credential = credentialByok
		}
		out.Organizations = append(out.Organizations, &gatewayv1.AffectedOrganization{
			OrganizationId: o.Name, Calls: toCount(o.Calls), FirstUsedAt: optionalTime(o.First), LastUsedAt: optionalTime(o.Last), Credential: credential,
		})
	}
	for _, of := range r.Services {
		out.Services = append(out.Services, &gatewayv1.AffectedService{
			Service: of.Name, Calls: toCount(of.Calls), FirstUsedAt: optionalTime(of.First), LastUsedAt: optionalTime(of.Last),
		})
	}
	for _, run := range r.Runs {
		out.Runs = append(out.Runs, &gatewayv1.AffectedRun{
			RunId: run.ID, OrganizationId: run.Organization, Calls: toCount(run.Calls), FirstUsedAt: optionalTime(run.First), LastUsedAt: optionalTime(run.Last),
		})
	}
	return out
}

// toCount limits a count to the contract's width.
func toCount(n int64) uint32 { return uint32(min(n, math.MaxUint32)) }

// ListAudit returns a page of the audit log.
func (s *securityServer) ListAudit(ctx context.Context, m *gatewayv1.ListAuditRequest) (*gatewayv1.ListAuditResponse, error) {
	if err := storable(m); err != nil {
		return nil, err
	}
	var organization string
	if from := caller.From(ctx); from.Organization != "" || m.GetOrganizationId() != "" {
		var err error
		if organization, err = from.OrganizationOf(m.GetOrganizationId()); err != nil {
			return nil, err
		}
	}
	since, until, err := toWindow(m.GetSince(), m.GetUntil())
	if err != nil {
		return nil, err
	}
	page := newKeyset("audit", organization, m.GetActor(), m.GetAction(), m.GetSubject(), since.String(), until.String())
	before, err := page.number(m.GetCursor())
	if err != nil {
		return nil, err
	}
	limit := pageSize(m.GetLimit())
	entries, err := s.audit.List(ctx, audit.Filter{
		Organization: organization, Actor: m.GetActor(), Action: m.GetAction(), Subject: m.GetSubject(),
		Since: since, Until: until, Before: before, Limit: limit + 1,
	})
	if err != nil {
		return nil, fmt.Errorf("audit: %w", err)
	}
	out := &gatewayv1.ListAuditResponse{}
	for i := range entries {
		if i == limit {
			out.NextCursor = page.cursor(strconv.FormatInt(entries[i-1].ID, 10))
			break
		}
		out.Entries = append(out.Entries, fromAudit(&entries[i]))
	}
	return out, nil
}

func fromAudit(e *audit.Entry) *gatewayv1.AuditEntry {
	return &gatewayv1.AuditEntry{
		AuditId: strconv.FormatInt(e.ID, 10), OccurredAt: timestamppb.New(e.OccurredAt), Actor: e.Actor, ActorRole: e.ActorRole,
		Action: e.Action, OrganizationId: toNullable(e.Organization), SubjectType: e.SubjectType, Subject: e.Subject,
		RequestId: e.RequestID, Reason: toNullable(e.Reason), Details: e.Details,
	}
}
