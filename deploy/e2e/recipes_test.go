//go:build e2e

package e2e_test

import (
	"bytes"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"golang.org/x/net/html"

	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/examples/recipes"
)

// Every page of recipes and every quick start runs from its first line to its last, and each call is served.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the recipes use %s: %v", program, err)
		}
	}
	h := plan{name: "recipes", tools: stack.ToolRules, fakes: []stack.Fake{stack.FakeBilling, stack.FakeTools}, settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}}}.start(t)
	env := recipeVariables(t, h)
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
			runScript(t, env, script)
		})
	}
	env = recipeVariables(t, h)
	for _, job := range []string{"chat", "tools", "webhooks", "notifications", "keys"} {
		t.Run("quick start "+job, func(t *testing.T) { runScript(t, env, shownCode(t, h, "start/"+job+".html")) })
	}
	payments := h.fake(stack.FakeTools).get(t, "/_executed?tool=pay").want(t, http.StatusOK)
	if large := gjson.GetBytes(payments.body, "executed.#(arguments.amount>100)#.arguments.to").Raw; large != `["bert"]` {
		t.Errorf("large payments to %s, want the approved one, once", large)
	}
}

// recipeVariables returns the environment of recipes with the keys of a new organization.
func recipeVariables(t *testing.T, h *harness) []string {
	t.Helper()
	organization := unique("org")
	return append(os.Environ(),
		"EDGE_URL="+h.URL(string(stack.Edge)), "EDGE_METRICS_URL="+h.MetricsURL(string(stack.Edge)), "GATEWAY_URL="+h.URL(string(stack.Gateway)),
		"WEBHOOK_EGRESS_URL="+h.URL(string(stack.WebhookEgress)), "NOTIFY_URL="+h.URL(string(stack.Notify)),
		"SERVICE_TOKEN="+h.Secrets().Service, "OPERATOR_TOKEN="+h.Secrets().Operator, "SUPPORT_TOKEN="+h.Secrets().Support,
		"ORGANIZATION_ID="+organization, "AI_KEY="+h.key(t, organization, "ai", "read,write,ai:approvals:decide,ai:approvers:write").Key,
		"WEBHOOKS_KEY="+h.key(t, organization, "webhooks", "read,write").Key, "NOTIFICATIONS_KEY="+h.key(t, organization, "notifications", "read,write,notifications:tokens:mint").Key,
		"TOOL_SERVER_URL="+h.FakeURL(stack.FakeTools)+"/mcp",
		"WEBHOOK_TARGET="+h.FakeURL(stack.FakeWebhook)+"/recipes", "BYOK_SECRETS_DIR="+filepath.Join(h.State(), "secrets", "gateway-organizations"))
}

// runScript runs a script of bash, which ends at the first line that fails.
func runScript(t *testing.T, env []string, script string) {
	t.Helper()
	run := exec.CommandContext(t.Context(), "bash", "-xeuo", "pipefail", "-c", script)
	run.Env = env
	if out, err := run.CombinedOutput(); err != nil {
		t.Errorf("the script failed: %v:\n%s", err, out)
	}
}

// shownCode returns all code that a page of the site of documents shows, in its order: what a reader copies.
func shownCode(t *testing.T, h *harness, path string) string {
	t.Helper()
	page, err := html.Parse(bytes.NewReader(h.anonymous(stack.Edge).get(t, siteHome+path).want(t, http.StatusOK).body))
	if err != nil {
		t.Fatal(err)
	}
	var code strings.Builder
	for n := range page.Descendants() {
		if n.Type == html.TextNode && n.Parent.Data == "code" && n.Parent.Parent.Data == "pre" {
			code.WriteString(n.Data + "\n")
		}
	}
	if !strings.Contains(code.String(), "customer ") {
		t.Fatalf("%s shows no call: %s", path, &code)
	}
	return code.String()
}
