//go:build e2e

package e2e_test

import (
	"net/http"
	"os"
	"os/exec"
	"slices"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/demo"
	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/examples/recipes"
)

// Every page of recipes runs from its first line to its last, and each call is served. The stack listens at other ports
// than `make run`.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the recipes use %s: %v", program, err)
		}
	}
	h := plan{name: "recipes", tools: stack.ToolRules, fakes: []stack.Fake{stack.FakeBilling, stack.FakeTools}, settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}}}.start(t)
	envFile := h.envFile(t)
	pages := slices.Clone(recipes.Tasks)
	for _, service := range stack.Services {
		pages = append(pages, string(service))
	}
	for _, page := range append(pages, pages...) { // twice: none is in the way of its next run
		t.Run(page, func(t *testing.T) {
			script, err := recipes.Script(page)
			if err != nil {
				t.Fatal(err)
			}
			// As a person does: with nothing but the settings file, in a folder that has nothing to do with the stack.
			run := exec.CommandContext(t.Context(), "bash", "-xeuo", "pipefail", "-c", "set -a; . '"+envFile+"'; set +a\n"+script)
			run.Dir = t.TempDir()
			run.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + run.Dir}
			if out, err := run.CombinedOutput(); err != nil {
				t.Errorf("the script failed: %v:\n%s", err, out)
			}
		})
	}
	payments := h.fake(stack.FakeTools).get(t, "/_executed?tool=pay").want(t, http.StatusOK)
	if large := gjson.GetBytes(payments.body, "executed.#(arguments.amount>100)#.arguments.to").Raw; large != `["bert","bert"]` {
		t.Errorf("large payments to %s, want the approved one of each run, once", large)
	}
}

// envFile returns the path of the settings file that `make run` writes for people, of an organization of its own.
func (h *harness) envFile(t *testing.T) string {
	t.Helper()
	env, err := demo.Reach(t.Context(), h.Stack, unique("org"), demo.Env{})
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{env.AIKey, env.WebhooksKey, env.NotificationsKey} {
		knownSecrets.add("a product key of the settings file", key)
	}
	path := demo.EnvFile(t.TempDir())
	if err := env.Write(path); err != nil {
		t.Fatal(err)
	}
	return path
}
