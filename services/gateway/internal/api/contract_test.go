package api_test

import (
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/reflect/protoreflect"

	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/gateway/internal/inference"
	"switchyard.dev/services/gateway/internal/reconcile"
	"switchyard.dev/services/gateway/internal/routing"
	"switchyard.dev/services/gateway/internal/steering"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/rpc"
)

// specified is the specification's tables of gateway operations, without the
// probes and /metrics, which are no methods.
const specified = `
POST /v1/llm/chat
POST /v1/embeddings
POST /v1/vision
GET /v1/providers
GET /v1/byok/config
POST /v1/byok/config
GET /v1/byok/config/{provider}
DELETE /v1/byok/config/{provider}
POST /v1/byok/config/{provider}/rotate
POST /v1/byok/purge
GET /v1/byok/config/{provider}/lifecycle
POST /v1/byok/config/{provider}/transfer
GET /v1/byok/stale
POST /v1/images/generations
GET /v1/availability
POST /v1/prompt-cache/purge
POST /v1/approvals
GET /v1/approvals/{ref}
POST /v1/approvals/{ref}/approve
POST /v1/approvals/{ref}/deny
POST /v1/mcp/trust
GET /v1/mcp/trust/{org_id}
POST /v1/mcp/trust/{org_id}/{server_id}/review
GET /v1/replay/{request_id}
POST /v1/replay/{request_id}
GET /v1/traces
GET /v1/support/trace/{request_id}
GET /v1/lineage/{request_id}
GET /v1/lineage
GET /v1/fleet/status
GET /v1/canary
POST /v1/canary/consistency
GET /v1/models/liveness
GET /v1/models/catalog
GET /v1/models/catalog/{provider}
GET /v1/models/registry
POST /v1/models/registry/{model_id}/deprecate
GET /v1/models/deprecation-notifications
POST /v1/admin/reload-policy
GET /v1/admin/routing-config
POST /v1/admin/pin
POST /v1/admin/unpin
GET /v1/admin/pin-status
POST /v1/admin/canary
POST /v1/admin/canary-stop
GET /v1/admin/canary-status
POST /v1/admin/orgs/{org_id}/suspend
POST /v1/admin/orgs/{org_id}/unsuspend
POST /v1/admin/sessions/{run_id}/abort
GET /v1/admin/sessions/{run_id}/spend
GET /v1/admin/orgs/{org_id}/spend
POST /v1/runs/mint
GET /v1/runs/{run_id}/authority
POST /v1/runs/{run_id}/revoke
GET /v1/security/blast-radius
GET /v1/pricing/drift
POST /v1/pricing/reconcile
`

// services are all of the contract's package.
func services() []protoreflect.ServiceDescriptor {
	var all []protoreflect.ServiceDescriptor
	for _, file := range []protoreflect.FileDescriptor{
		gatewayv1.File_switchyard_gateway_v1_inference_proto, gatewayv1.File_switchyard_gateway_v1_approvals_proto,
		gatewayv1.File_switchyard_gateway_v1_byok_proto, gatewayv1.File_switchyard_gateway_v1_models_proto,
		gatewayv1.File_switchyard_gateway_v1_orgs_proto, gatewayv1.File_switchyard_gateway_v1_pricing_proto,
		gatewayv1.File_switchyard_gateway_v1_probes_proto, gatewayv1.File_switchyard_gateway_v1_providers_proto,
		gatewayv1.File_switchyard_gateway_v1_routing_proto, gatewayv1.File_switchyard_gateway_v1_runs_proto,
		gatewayv1.File_switchyard_gateway_v1_security_proto, gatewayv1.File_switchyard_gateway_v1_traces_proto,
		gatewayv1.File_switchyard_gateway_v1_trust_proto, gatewayv1.File_switchyard_gateway_v1_usage_proto,
	} {
		for i := range file.Services().Len() {
			all = append(all, file.Services().Get(i))
		}
	}
	return all
}

func TestContractHasTheSpecifiedPaths(t *testing.T) {
	var paths []string
	for _, service := range services() {
		for _, route := range rpc.Routes(service, optionsv1.E_Role) {
			if route.Role == "" {
				t.Errorf("%s has no role", route.Method)
			}
			paths = append(paths, route.Verb+" "+route.Path)
		}
	}
	for want := range strings.Lines(strings.TrimSpace(specified)) {
		if want = strings.TrimSpace(want); !slices.Contains(paths, want) {
			t.Errorf("the contract lacks %s", want)
		}
	}
}

func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		routing.ReasonModelNotFound, routing.ReasonProviderUnknown, routing.ReasonModelRetired, routing.ReasonPolicyInvalid,
		steering.ReasonVersionConflict, reconcile.ReasonKeyReused,
		inference.ReasonAllProvidersFailed, inference.ReasonProviderFailed, inference.ReasonProviderAuth,
		inference.ReasonMissingKeys, inference.ReasonContextOverflow, inference.ReasonContentPolicy,
		inference.ReasonStreamInterrupted, inference.ReasonLedgerFull,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("the contract has no reason %q", reason)
		}
	}
}
