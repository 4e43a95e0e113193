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

	"switchyard.dev/deploy/dev/demo"
	"switchyard.dev/deploy/dev/stack"
	"switchyard.dev/deploy/examples/recipes"
)

// Every page of recipes and every quick start runs from its first line to its last, and each call is served. So does
// `make demo`. The stack listens at other ports than `make run`.
func TestRecipes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Fatalf("the recipes use %s: %v", program, err)
		}
	}
	h := plan{name: "recipes", tools: stack.ToolRules, fakes: []stack.Fake{stack.FakeBilling, stack.FakeTools, stack.FakeSlack, stack.FakeSMTP}, settings: settings{stack.Notify: {"NOTIFY_WEB_PUSH_ENABLED=true"}}}.start(t)
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
			runScript(t, envFile, script)
		})
	}
	envFile = h.envFile(t)
	for _, job := range []string{"chat", "tools", "webhooks", "notifications", "keys"} {
		t.Run("quick start "+job, func(t *testing.T) { runScript(t, envFile, shownCode(t, h, "start/"+job+".html")) })
	}
	payments := h.fake(stack.FakeTools).get(t, "/_executed?tool=pay").want(t, http.StatusOK)
	if large := gjson.GetBytes(payments.body, "executed.#(arguments.amount>100)#.arguments.to").Raw; large != `["bert","bert"]` {
		t.Errorf("large payments to %s, want the approved one of each run, once", large)
	}
	t.Run("demo", func(t *testing.T) { h.runDemo(t) })
}

// runDemo does what `make demo` does, as an organization of its own.
func (h *harness) runDemo(t *testing.T) {
	t.Helper()
	state := filepath.Dir(h.envFile(t))
	env, err := demo.ReadEnv(demo.EnvFile(state))
	if err != nil {
		t.Fatal(err)
	}
	url, _ := h.hook()
	slack := filepath.Join(h.State(), "secrets", "notify-slack", env.OrganizationID)
	if err := os.WriteFile(slack, []byte(url+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := os.Create(filepath.Join(state, "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if err := demo.Run(t.Context(), demo.NewScreen(out, os.Getenv), state); err != nil {
		text, _ := os.ReadFile(out.Name())
		t.Errorf("%v:\n%s", err, text)
	}
}

// runScript runs a script of bash as a person does: with nothing but the settings file, in a folder that has nothing to do
// with the stack. It ends at the first line that fails.
func runScript(t *testing.T, envFile, script string) {
	t.Helper()
	dir := t.TempDir()
	out, err := recipes.Run(t.Context(), dir, []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, "set -a; . '"+envFile+"'; set +a\n"+script)
	if err != nil {
		t.Errorf("the script failed: %v:\n%s", err, out)
	}
}

// shownCode returns all code that a page of the site of documents shows, in its order: what a reader copies.
func shownCode(t *testing.T, h *harness, path string) string {
	t.Helper()
	code, err := recipes.Shown(bytes.NewReader(h.anonymous(stack.Edge).get(t, siteHome+path).want(t, http.StatusOK).body))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(code, "customer ") {
		t.Fatalf("%s shows no call: %s", path, code)
	}
	return code
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
