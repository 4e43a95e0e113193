//go:build e2e

package e2e_test

import (
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"

	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"

	"switchyard.dev/deploy/dev/stack"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
)

// callable is a path of the gateway's contract and who may call it.
type callable struct {
	verb, path string
	role       optionsv1.Role
}

// gatewayOperations walks the contract, so that none can be forgotten.
func gatewayOperations() []callable {
	var all []callable
	of := gatewayv1.File_switchyard_gateway_v1_chat_proto.Package()
	protoregistry.GlobalFiles.RangeFilesByPackage(of, func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			methods := file.Services().Get(i).Methods()
			for j := range methods.Len() {
				options := methods.Get(j).Options()
				role, _ := proto.GetExtension(options, optionsv1.E_Role).(optionsv1.Role)
				rule, _ := proto.GetExtension(options, annotations.E_Http).(*annotations.HttpRule)
				for _, binding := range append([]*annotations.HttpRule{rule}, rule.GetAdditionalBindings()...) {
					if verb, path := verbAndPath(binding); path != "" {
						all = append(all, callable{verb, path, role})
					}
				}
			}
		}
		return true
	})
	// The faces of other APIs are the same methods by other paths.
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"} {
		all = append(all, callable{http.MethodPost, path, optionsv1.Role_ROLE_SERVICE})
	}
	all = append(all, callable{http.MethodGet, "/v1/models", optionsv1.Role_ROLE_SERVICE})
	for _, path := range []string{"/health", "/health/live", "/health/ready", "/metrics"} {
		all = append(all, callable{http.MethodGet, path, optionsv1.Role_ROLE_PUBLIC})
	}
	return all
}

func verbAndPath(rule *annotations.HttpRule) (verb, path string) {
	for verb, path := range map[string]string{
		http.MethodGet: rule.GetGet(), http.MethodPost: rule.GetPost(), http.MethodPut: rule.GetPut(),
		http.MethodPatch: rule.GetPatch(), http.MethodDelete: rule.GetDelete(),
	} {
		if path != "" {
			return verb, path
		}
	}
	return "", ""
}

// specifiedGateway is the specification's tables of gateway operations.
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
GET /health
GET /health/live
GET /health/ready
GET /v1/availability
GET /metrics
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

// unauthenticated are those that the specification opens to anyone, and the probes.
var unauthenticated = []string{
	"/health", "/health/live", "/health/ready", "/metrics", "/v1/models/catalog", "/v1/models/catalog/{provider}", "/v1/models/registry",
	"/v1/models/deprecation-notifications", "/v1/pricing/drift",
}

var pathVariable = regexp.MustCompile(`\{[^}]*\}`)

// Each operation of the gateway is called by its path as each role and as nobody:
// it is served, those who may call it get past the door, and nobody else does.
func TestEveryOperationAsEachRole(t *testing.T) {
	t.Parallel()
	h := use(t)
	name := unique("nobodys") // Whatever a path names is nobody's.
	callers := []struct {
		role   optionsv1.Role
		client client
	}{
		{optionsv1.Role_ROLE_PUBLIC, h.anonymous(stack.Gateway)},
		{optionsv1.Role_ROLE_SUPPORT, h.anonymous(stack.Gateway).bearer(h.Secrets().Support)},
		{optionsv1.Role_ROLE_SERVICE, h.service(stack.Gateway, name)},
		{optionsv1.Role_ROLE_OPERATOR, h.operator(stack.Gateway).with("X-Organization-Id", name)},
	}
	operations := gatewayOperations()
	for want := range strings.Lines(strings.TrimSpace(specifiedGateway)) {
		verb, path, _ := strings.Cut(strings.TrimSpace(want), " ")
		i := slices.IndexFunc(operations, func(o callable) bool { return o.verb == verb && o.path == path })
		if i < 0 {
			t.Errorf("the specification's %s %s is in no contract", verb, path)
			continue
		}
		if open := operations[i].role == optionsv1.Role_ROLE_PUBLIC; open != slices.Contains(unauthenticated, path) {
			t.Errorf("%s %s: open to anyone %v", verb, path, open)
		}
	}
	for _, o := range operations {
		path := pathVariable.ReplaceAllString(o.path, name)
		if path == "/v1/models/liveness" {
			path += "?provider=sandbox" // Other tests count the calls to their vendors.
		}
		for _, c := range callers {
			var body any
			if o.verb == http.MethodPost || o.verb == http.MethodPut || o.verb == http.MethodPatch {
				body = "{}"
			}
			a := c.client.do(t, o.verb, path, body)
			may := o.role == optionsv1.Role_ROLE_PUBLIC || o.role == c.role || c.role == optionsv1.Role_ROLE_OPERATOR
			switch label := o.verb + " " + o.path + " as " + c.role.String(); {
			case !may && c.role == optionsv1.Role_ROLE_PUBLIC && a.status != http.StatusUnauthorized,
				!may && c.role != optionsv1.Role_ROLE_PUBLIC && a.status != http.StatusForbidden:
				t.Errorf("%s: %d %s, want to be refused", label, a.status, shorten(a.body))
			case !may:
			case a.status == http.StatusUnauthorized, a.status == http.StatusForbidden, a.status == http.StatusMethodNotAllowed,
				a.status == http.StatusNotImplemented, a.status == http.StatusInternalServerError,
				a.status == http.StatusNotFound && strings.Contains(string(a.body), "path /v1"):
				t.Errorf("%s: %d %s, want to be served", label, a.status, shorten(a.body))
			}
		}
	}
	t.Logf("%d operations, %d callers", len(operations), len(callers))
}
