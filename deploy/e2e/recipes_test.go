//go:build e2e

package e2e_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

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
	h := plan{name: "recipes", fakes: []stack.Fake{stack.FakeBilling, stack.FakeTools}, settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}}}.start(t)
	organization := unique("org")
	env := append(os.Environ(),
		"EDGE_URL="+h.URL(string(stack.Edge)), "EDGE_METRICS_URL="+h.MetricsURL(string(stack.Edge)), "GATEWAY_URL="+h.URL(string(stack.Gateway)),
		"WEBHOOK_EGRESS_URL="+h.URL(string(stack.WebhookEgress)), "NOTIFY_URL="+h.URL(string(stack.Notify)),
		"SERVICE_TOKEN="+h.Secrets().Service, "OPERATOR_TOKEN="+h.Secrets().Operator, "SUPPORT_TOKEN="+h.Secrets().Support,
		"ORGANIZATION_ID="+organization, "AI_KEY="+h.key(t, organization, "ai", "read,write,ai:approvals:decide,ai:approvers:write").Key,
		"WEBHOOKS_KEY="+h.key(t, organization, "webhooks", "read,write").Key, "NOTIFICATIONS_KEY="+h.key(t, organization, "notifications", "read,write,notifications:tokens:mint").Key,
		"TOOL_SERVER_URL="+h.FakeURL(stack.FakeTools)+"/mcp",
		"WEBHOOK_TARGET="+h.FakeURL(stack.FakeWebhook)+"/recipes", "BYOK_SECRETS_DIR="+filepath.Join(h.State(), "secrets", "gateway-organizations"))
	for _, service := range stack.Services {
		t.Run(string(service), func(t *testing.T) {
			script, err := recipes.Script(string(service))
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
}
