//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// onPlan puts an organization on a new plan.
func (h *harness) onPlan(t *testing.T, organization string, plan object) {
	t.Helper()
	name := unique("plan")
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/plans/"+name, plan).want(t, http.StatusOK)
	h.operator(stack.Edge).do(t, http.MethodPut, "/admin/v1/organizations/"+organization+"/plan", object{"plan": name}).want(t, http.StatusOK)
}

// plansHoldTools checks that prepaid credits and hard limits of cents apply to calls of tools.
func (h *harness) plansHoldTools(t *testing.T) {
	organization := unique("org")
	listing := h.registerTools(t, organization, "files", 50)
	service, customer := h.service(stack.Gateway, organization), h.customer(t, organization, "ai", "write")
	service.post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	service.post(t, serversPath+"/files/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
	caller := customer.with("MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "tools/call", "Mcp-Name", "files__echo", "Accept", "application/json, text/event-stream")
	call := func() answer {
		return caller.post(t, toolsPath, object{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": object{
			"name": "files__echo", "arguments": object{"text": "hello"},
			"_meta": object{"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": object{}},
		}})
	}
	refused := func(status int, reason string) {
		t.Helper()
		waitFor(t, waitTimeout, reason, func() error {
			if a := call(); a.status != status || gjson.GetBytes(a.body, "error.data.reason").Str != reason {
				return fmt.Errorf("%d %s", a.status, a.body)
			}
			return nil
		})
	}
	limit := []object{{"meter": "cents", "period": "day", "amount": 1, "kind": "hard"}}
	h.onPlan(t, organization, object{"prepaid": true, "limits": limit})
	refused(http.StatusForbidden, "credits_exhausted")
	h.onPlan(t, organization, object{"limits": limit})
	waitFor(t, waitTimeout, "a call that nothing holds yet", func() error {
		if a := call(); a.status != http.StatusOK {
			return fmt.Errorf("%d %s", a.status, a.body)
		}
		return nil
	})
	refused(http.StatusTooManyRequests, "quota_exceeded")
	used := customer.get(t, "/product/v1/_meta/limits").want(t, http.StatusOK)
	if got := gjson.GetBytes(used.body, `limits.#(meter=="cents").used`).Int(); got < 50 {
		t.Errorf("%s, want at least the 50 cents of a call", used.body)
	}
}

// If a plan is used up, each face answers with its API's code for errors that clients must not retry.
func TestUsedUpPlanOnEveryFace(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	h.onPlan(t, organization, object{"limits": []object{{"meter": "calls", "period": "month", "amount": 1, "kind": "hard"}}})
	c := h.customer(t, organization, "ai", "read,write")
	waitFor(t, waitTimeout, "a used-up plan", func() error {
		if a := c.post(t, chatRoute, ask("sandbox", "hello")); a.status != http.StatusTooManyRequests {
			return fmt.Errorf("status %d", a.status)
		}
		return nil
	})
	const root = "/product/v1/ai/"
	for path, code := range map[string]string{
		root + "chat":                                              "error=quota_exceeded",
		root + "openai/v1/chat/completions":                        "error.code=insufficient_quota",
		root + "openai/v1/responses":                               "error.type=insufficient_quota",
		root + "openai/v1/embeddings":                              "error.code=insufficient_quota",
		root + "openai/v1/batches":                                 "error.reason=quota_exceeded",
		root + "anthropic/v1/messages":                             "error.type=billing_error",
		root + "anthropic/v1/messages/batches":                     "error.code=quota_exceeded",
		root + "gemini/v1beta/models/sandbox:generateContent":      "error.details.0.reason=quota_exceeded",
		root + "azure/openai/deployments/sandbox/chat/completions": "error.code=insufficient_quota",
		"/product/v1/mcp":                                          "error.data.reason=quota_exceeded",
	} {
		a := c.post(t, path, object{})
		field, want, _ := strings.Cut(code, "=")
		retryable := gjson.GetBytes(a.body, "retryable").Raw + gjson.GetBytes(a.body, "error.retryable").Raw
		if a.status != http.StatusTooManyRequests || gjson.GetBytes(a.body, field).Str != want || strings.Contains(retryable, "true") ||
			a.header.Get("X-Should-Retry") != "false" {
			t.Errorf("POST %s: %d %s, X-Should-Retry %q; want %s", path, a.status, a.body, a.header.Get("X-Should-Retry"), code)
		}
	}
}
