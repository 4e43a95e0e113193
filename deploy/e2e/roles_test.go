//go:build e2e

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/contract"
	"switchyard.dev/deploy/dev/stack"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
)

// gatewayOperations returns the operations of the contract, and the further routes of the gateway.
func gatewayOperations() []contract.Operation {
	all, _ := contract.Operations(contracts[stack.Gateway])
	add := func(verb string, role optionsv1.Role, paths ...string) {
		for _, path := range paths {
			all = append(all, contract.Operation{Method: path, Verb: verb, Path: path, Role: role})
		}
	}
	// The compatible APIs are the same methods on other paths.
	add(http.MethodPost, optionsv1.Role_ROLE_SERVICE, "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens",
		"/v1/files", "/v1/batches", "/v1/batches/{id}/cancel", "/v1/messages/batches", "/v1/messages/batches/{id}/cancel")
	add(http.MethodGet, optionsv1.Role_ROLE_SERVICE, "/v1/models", "/v1/files", "/v1/files/{id}", "/v1/files/{id}/content",
		"/v1/batches", "/v1/batches/{id}", "/v1/messages/batches", "/v1/messages/batches/{id}", "/v1/messages/batches/{id}/results")
	add(http.MethodDelete, optionsv1.Role_ROLE_SERVICE, "/v1/files/{id}", "/v1/messages/batches/{id}")
	add(http.MethodGet, optionsv1.Role_ROLE_PUBLIC, "/health", "/health/live", "/health/ready", "/metrics")
	return all
}

// pathOf returns the path of an operation with a name in place of its parameters. The models that it probes are the
// sandbox's: other tests count the calls to their vendors.
func pathOf(o contract.Operation, name string) string {
	path := o.At(name)
	if path == "/v1/models/liveness" {
		path += "?provider=sandbox"
	}
	return path
}

// The test calls each operation of the gateway by its path, as each role and without a
// credential: the gateway serves it, admits the callers that may call it, and refuses all others.
func TestEveryOperationAsEachRole(t *testing.T) {
	t.Parallel()
	h := use(t)
	name := unique("missing") // so that no path names an existing resource
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
	for _, o := range operations {
		path := pathOf(o, name)
		for _, c := range callers {
			var body any
			if o.Verb == http.MethodPost || o.Verb == http.MethodPut || o.Verb == http.MethodPatch {
				body = "{}"
			}
			a := c.client.do(t, o.Verb, path, body)
			may := o.Role == optionsv1.Role_ROLE_PUBLIC || o.Role == c.role || c.role == optionsv1.Role_ROLE_OPERATOR
			switch label := o.Verb + " " + o.Path + " as " + c.role.String(); {
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
