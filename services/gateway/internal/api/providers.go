package api

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/timestamppb"
	"google.golang.org/protobuf/types/known/wrapperspb"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/operations/status"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/routing"
)

// Status reports the state of the providers and of the gateway itself.
type Status interface {
	Providers() []status.Provider
	Availability() status.Availability
	Fleet() status.Fleet
}

// providerServer serves that state.
type providerServer struct {
	gatewayv1.UnimplementedProviderServiceServer

	status Status
}

// ListProviders returns a page of the providers.
func (s *providerServer) ListProviders(_ context.Context, m *gatewayv1.ListProvidersRequest) (*gatewayv1.ListProvidersResponse, error) {
	page, cursor, err := pageOf(newKeyset("providers"), m, 1, s.status.Providers(), func(p status.Provider) []string { return []string{p.Name} })
	if err != nil {
		return nil, err
	}
	out := &gatewayv1.ListProvidersResponse{NextCursor: cursor}
	for i := range page {
		out.Providers = append(out.Providers, fromProvider(&page[i]))
	}
	return out, nil
}

func fromCredential(c *status.Credential) *gatewayv1.CredentialStatus {
	return &gatewayv1.CredentialStatus{
		Name: c.Name, Kind: c.Kind, Status: string(c.State), Reason: toNullable(string(c.Reason)), RestingUntil: optionalTime(c.Until),
		Fingerprint: toNullable(c.Fingerprint), InFlight: int32(c.InFlight),
	}
}

func fromProvider(p *status.Provider) *gatewayv1.ProviderStatus {
	out := &gatewayv1.ProviderStatus{
		Provider: p.Name, Dialect: p.Dialect, Aliases: p.Aliases, Status: string(p.Health), FleetKey: p.FleetKey,
		Selectable: p.NotSelectable == "", NotSelectableReason: toNullable(p.NotSelectable), StatusSince: optionalTime(p.Since),
		Bulkhead: &gatewayv1.BulkheadStatus{
			InFlight: int32(p.Bulkhead.InFlight), Capacity: int32(p.Bulkhead.Limit), Waiting: int32(p.Bulkhead.Waiting), Rejected: p.Bulkhead.Rejected,
		},
	}
	for _, operation := range p.Operations {
		out.Operations = append(out.Operations, string(operation))
	}
	for _, c := range p.Circuits {
		out.Breakers = append(out.Breakers, fromCircuit(c))
	}
	for _, f := range p.Models {
		out.Models = append(out.Models, fromFigures(f))
	}
	for i := range p.Credentials {
		out.Credentials = append(out.Credentials, fromCredential(&p.Credentials[i]))
	}
	out.Ranks = fromRanking(p.Ranking)
	return out
}

func fromCircuit(c status.Circuit) *gatewayv1.BreakerStatus {
	out := &gatewayv1.BreakerStatus{
		ModelFamily: c.Family, State: c.Phase.String(), Since: optionalTime(c.Since), Failures: int32(c.Failures),
		LastErrorClass: toNullable(c.LastClass), OpenReplicas: int32(c.OpenReplicas),
	}
	if c.Phase == health.Open {
		out.RetryAt = optionalTime(c.Until)
	}
	return out
}

func fromFigures(f health.Figures) *gatewayv1.ModelStats {
	out := &gatewayv1.ModelStats{
		Model: f.Model, Attempts: int32(f.Calls), LatencyP50Ms: inMilliseconds(f.P50), LatencyP99Ms: inMilliseconds(f.P99),
		FirstTokenP50Ms: inMilliseconds(f.FirstToken), WindowSeconds: int32(health.TrafficWindow / time.Second),
	}
	if f.Calls > 0 {
		out.ErrorRate = float64(f.Failures) / float64(f.Calls)
	}
	return out
}

func inMilliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

func fromRanking(ranking []routing.RankedCandidate) []*gatewayv1.SelectionRank {
	out := make([]*gatewayv1.SelectionRank, len(ranking))
	for i, s := range ranking {
		out[i] = &gatewayv1.SelectionRank{
			Operation: string(s.Operation), Goal: string(s.Goal), Provider: s.Provider, Model: s.Model, Rank: int32(s.Rank), Score: s.Score, Reason: s.Reason,
		}
	}
	return out
}

// GetAvailability returns the gateway's dependencies and their state.
func (s *providerServer) GetAvailability(context.Context, *gatewayv1.GetAvailabilityRequest) (*gatewayv1.Availability, error) {
	a := s.status.Availability()
	out := &gatewayv1.Availability{Status: a.Status, SinglePointsOfFailure: a.Single(), MeasuredAt: timestamppb.New(a.At)}
	for _, d := range a.Dependencies {
		dependency := &gatewayv1.Dependency{
			Name: d.Name, Kind: d.Kind, Purpose: d.Purpose, Status: string(d.State), Required: d.Required, SinglePointOfFailure: d.Single,
			Impact: d.Impact, Mitigation: d.Mitigation, CheckedAt: optionalTime(d.At), Since: optionalTime(d.Since),
		}
		if d.Latency > 0 {
			dependency.LatencyMs = wrapperspb.Double(inMilliseconds(d.Latency))
		}
		out.Dependencies = append(out.Dependencies, dependency)
	}
	return out, nil
}

// GetFleetStatus says whether a problem is the gateway's or a vendor's.
func (s *providerServer) GetFleetStatus(context.Context, *gatewayv1.GetFleetStatusRequest) (*gatewayv1.FleetStatus, error) {
	f := s.status.Fleet()
	out := &gatewayv1.FleetStatus{
		Status: string(f.Verdict), GatewayStatus: string(f.Gateway), VendorStatus: string(f.Vendor), Since: optionalTime(f.Since),
		Summary: f.Summary, MeasuredAt: optionalTime(f.At),
	}
	for _, r := range f.Replicas {
		out.Replicas = append(out.Replicas, &gatewayv1.ReplicaStatus{
			ReplicaId: r.ID, Version: r.Version, PolicyVersion: r.Policy, LedgerMode: r.Ledger, Status: string(r.State), Problems: r.Problems,
			StartedAt: optionalTime(r.StartedAt), LastSeenAt: optionalTime(r.LastSeen),
		})
	}
	for _, v := range f.Vendors {
		out.Vendors = append(out.Vendors, &gatewayv1.VendorStatus{
			Provider: v.Provider, Status: string(v.State), Since: optionalTime(v.Since), Attempts: int32(v.Attempts), ErrorRate: v.ErrorRate,
			LastErrorClass: toNullable(v.LastClass), LastSuccessAt: optionalTime(v.LastSuccess), LastFailureAt: optionalTime(v.LastFailure),
		})
	}
	return out, nil
}
