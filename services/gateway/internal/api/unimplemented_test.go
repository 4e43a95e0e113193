package api

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/routing"
)

// recorder asks each method that is registered what it does with an empty request.
type recorder struct {
	t             *testing.T
	served        int
	unimplemented []string
}

func (r *recorder) RegisterService(desc *grpc.ServiceDesc, impl any) {
	empty := func(any) error { return nil }
	for _, method := range desc.Methods {
		_, err := method.Handler(impl, r.t.Context(), empty, nil)
		r.note(desc, method.MethodName, err)
	}
	for _, stream := range desc.Streams {
		r.note(desc, stream.StreamName, stream.Handler(impl, emptyStream{ctx: r.t}))
	}
}

func (r *recorder) note(desc *grpc.ServiceDesc, method string, err error) {
	if status.Code(err) == codes.Unimplemented {
		r.unimplemented = append(r.unimplemented, strings.TrimPrefix(desc.ServiceName, "switchyard.gateway.v1.")+"/"+method)
		return
	}
	r.served++
}

// The methods of the contract that are still to come.
func TestUnimplementedMethods(t *testing.T) {
	r := &recorder{t: t}
	register(r, &inferenceServer{}, Nouns{Policies: noPolicies{}, Usage: noUsage{}})
	slices.Sort(r.unimplemented)
	if diff := cmp.Diff(strings.Fields(stillToCome), r.unimplemented); diff != "" || r.served != 8 {
		t.Errorf("%d served, want the five of completions, ReloadPolicy, ListUsage and PurgePromptCache; unimplemented (-want +got):\n%s", r.served, diff)
	}
}

type noUsage struct{ ledger.Feed }

type noPolicies struct{}

func (noPolicies) Reload(context.Context) (routing.Reloaded, error) {
	return routing.Reloaded{}, errors.New("none")
}

type emptyStream struct {
	grpc.ServerStream

	ctx *testing.T
}

func (emptyStream) RecvMsg(any) error           { return nil }
func (emptyStream) SendMsg(any) error           { return errors.New("nothing is sent") }
func (emptyStream) SetHeader(metadata.MD) error { return nil }

func (s emptyStream) Context() context.Context { return s.ctx.Context() }

const stillToCome = `
ApprovalService/Approve
ApprovalService/CreateApproval
ApprovalService/Deny
ApprovalService/GetApproval
ApprovalService/ListApprovals
ByokService/DeleteByokConfig
ByokService/GetByokConfig
ByokService/GetByokLifecycle
ByokService/GetSealingKey
ByokService/ListByokConfigs
ByokService/ListStaleByokConfigs
ByokService/PurgeByok
ByokService/PutByokConfig
ByokService/RotateByokConfig
ByokService/TransferByokConfig
ModelService/DeprecateModel
ModelService/GetProviderCard
ModelService/ListDeprecationNotifications
ModelService/ListModelCards
ModelService/ListRegistry
OrganizationService/GetOrganizationSpend
OrganizationService/SetOrganizationBudget
OrganizationService/SuspendOrganization
OrganizationService/UnsuspendOrganization
PricingService/GetReconciliation
PricingService/ListPricingDrift
PricingService/ListReconciliations
PricingService/ReconcilePricing
ProbeService/CheckConsistency
ProbeService/CheckLiveness
ProbeService/RunCanary
ProviderService/GetAvailability
ProviderService/GetFleetStatus
ProviderService/ListProviders
RoutingService/ClearPin
RoutingService/GetCanaryStatus
RoutingService/GetPinStatus
RoutingService/GetRoutingConfig
RoutingService/SetCanary
RoutingService/SetPin
RoutingService/StopCanary
RunService/AbortSession
RunService/GetRunAuthority
RunService/GetSessionSpend
RunService/MintRun
RunService/RevokeRun
SecurityService/GetBlastRadius
SecurityService/ListAudit
TraceService/GetLineage
TraceService/GetReplay
TraceService/GetSupportTrace
TraceService/ListLineage
TraceService/ListTraces
TraceService/Replay
TrustService/AssignTrust
TrustService/ListTrust
TrustService/ListTrustHistory
TrustService/ReviewTrust
`
