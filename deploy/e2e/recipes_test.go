//go:build e2e

package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/examples/recipes"
)

// Every page of recipes runs from its first line to its last, and each call is served.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the recipes use %s: %v", program, err)
		}
	}
	h := plan{name: "recipes", tools: stack.ToolRules, fakes: []stack.Fake{stack.FakeBilling, stack.FakeTools}, settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}}}.start(t)
	organization := unique("org")
	env := append(os.Environ(),
		"EDGE_URL="+h.URL(string(stack.Edge)), "EDGE_METRICS_URL="+h.MetricsURL(string(stack.Edge)), "GATEWAY_URL="+h.URL(string(stack.Gateway)),
		"WEBHOOK_EGRESS_URL="+h.URL(string(stack.WebhookEgress)), "NOTIFY_URL="+h.URL(string(stack.Notify)),
		"SERVICE_TOKEN="+h.Secrets().Service, "OPERATOR_TOKEN="+h.Secrets().Operator, "SUPPORT_TOKEN="+h.Secrets().Support,
		"ORGANIZATION_ID="+organization, "AI_KEY="+h.key(t, organization, "ai", "read,write,ai:approvals:decide,ai:approvers:write").Key,
		"WEBHOOKS_KEY="+h.key(t, organization, "webhooks", "read,write").Key, "NOTIFICATIONS_KEY="+h.key(t, organization, "notifications", "read,write,notifications:tokens:mint").Key,
		"TOOL_SERVER_URL="+h.FakeURL(stack.FakeTools)+"/mcp",
		"WEBHOOK_TARGET="+h.FakeURL(stack.FakeWebhook)+"/recipes", "BYOK_SECRETS_DIR="+filepath.Join(h.State(), "secrets", "gateway-organizations"))
	pages := slices.Clone(recipes.Tasks)
	for _, service := range stack.Services {
		pages = append(pages, string(service))
	}
	for _, page := range pages {
		t.Run(page, func(t *testing.T) {
			script, err := recipes.Script(page)
			if err != nil {
				t.Fatal(err)
			}
			run := exec.CommandContext(t.Context(), "bash", "-xeuo", "pipefail", "-c", script)
			run.Env = env
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("the script failed: %v:\n%s", err, out)
			}
		})
	}
	payments := h.fake(stack.FakeTools).get(t, "/_executed?tool=pay").want(t, http.StatusOK)
	if large := gjson.GetBytes(payments.body, "executed.#(arguments.amount>100)#.arguments.to").Raw; large != `["bert"]` {
		t.Errorf("large payments to %s, want the approved one, once", large)
	}
}
