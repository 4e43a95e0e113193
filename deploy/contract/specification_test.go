package contract_test

import (
	"slices"
	"strings"
	"testing"

	"switchyard.dev/deploy/contract"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
)

// specifiedGateway is the gateway operations in the specification's tables, without the health and metrics paths, which
// are no methods.
const specifiedGateway = `
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

// openGateway lists the operations that need no credential by the specification.
var openGateway = []string{
	"GET /v1/models/catalog", "GET /v1/models/catalog/{provider}", "GET /v1/models/registry",
	"GET /v1/models/deprecation-notifications", "GET /v1/pricing/drift",
}

// The gateway's contract has every operation of the specification, and exactly those of them need no credential that
// the specification opens.
func TestGatewayIsAsSpecified(t *testing.T) {
	operations, _ := contract.Operations(gatewayv1.File_switchyard_gateway_v1_chat_proto.Package())
	for want := range strings.Lines(strings.TrimSpace(specifiedGateway)) {
		verb, path, _ := strings.Cut(strings.TrimSpace(want), " ")
		if !slices.ContainsFunc(operations, func(o contract.Operation) bool { return o.Verb == verb && o.Path == path }) {
			t.Errorf("the contract lacks %s %s", verb, path)
		}
	}
	for _, o := range operations {
		if o.Role == optionsv1.Role_ROLE_UNSPECIFIED {
			t.Errorf("%s has no role", o.Method)
		}
		if open := o.Role == optionsv1.Role_ROLE_PUBLIC; open != slices.Contains(openGateway, o.Verb+" "+o.Path) {
			t.Errorf("%s %s: needs no credential %v, the specification says the opposite", o.Verb, o.Path, open)
		}
	}
}
