//go:build e2e

package e2e_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"
)

// clientsEnv names deploy/clients with its packages installed, which .ci/run does.
const clientsEnv = "SWITCHYARD_CLIENTS_CHECK"

// clientTimeout is how long a client may take; it is long, since several run at once on few cores.
const clientTimeout = 2 * time.Minute

// npmClients is deploy/clients: clients of AI providers as npm has them, and the scripts that use them.
type npmClients struct {
	folder string
	arch   string // as the names of packages have it
}

// clients returns the clients, and skips the test where they aren't installed. In CI they must be.
func clients(t *testing.T) npmClients {
	t.Helper()
	folder := os.Getenv(clientsEnv)
	if folder == "" {
		if os.Getenv("CI") == "true" {
			t.Fatal(clientsEnv + " is not set; .ci/run installs the clients and sets it")
		}
		t.Skipf("%s is not set: `npm ci --ignore-scripts` in deploy/clients, and set it to that folder", clientsEnv)
	}
	arch := map[string]string{"amd64": "x64", "arm64": "arm64"}[runtime.GOARCH]
	return npmClients{folder, arch}
}

// file returns the path of a file of a package; "*" stands for the name of a platform.
func (n npmClients) file(t *testing.T, pattern string) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(n.folder, "node_modules", pattern))
	if err != nil || len(found) != 1 {
		t.Fatalf("files %s: %q, error %v, want one; run `npm ci --ignore-scripts` in deploy/clients", pattern, found, err)
	}
	return found[0]
}

// node returns the path of Node.js: Debian's is older than the clients need.
func (n npmClients) node(t *testing.T) string {
	t.Helper()
	return n.file(t, "node-linux-"+n.arch+"/bin/node")
}

// clientRun is a client's run: a program in a folder, with no other environment than its own.
type clientRun struct {
	program string
	args    []string
	folder  string
	env     []string
}

// run runs a client in a home of its own, and returns what it printed. It fails the test if the client fails, or if it
// calls anything but this machine.
func (r clientRun) run(t *testing.T) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), clientTimeout)
	defer cancel()
	var world outside
	proxy := httptest.NewServer(&world)
	defer proxy.Close()
	command := exec.CommandContext(ctx, r.program, r.args...)
	command.Dir, command.WaitDelay = r.folder, time.Second
	command.Env = append([]string{
		"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "LANG=C.UTF-8", "TERM=dumb",
		"HTTP_PROXY=" + proxy.URL, "HTTPS_PROXY=" + proxy.URL, "http_proxy=" + proxy.URL, "https_proxy=" + proxy.URL,
		"NO_PROXY=127.0.0.1,localhost", "no_proxy=127.0.0.1,localhost", "NODE_USE_ENV_PROXY=1",
	}, r.env...)
	start := time.Now()
	out, err := command.CombinedOutput()
	t.Logf("%s ended after %s", filepath.Base(r.program), time.Since(start).Round(time.Millisecond))
	if err != nil {
		t.Fatalf("%s %q: %v\n%s", filepath.Base(r.program), r.args, err, out)
	}
	if called := world.hosts(); len(called) > 0 {
		t.Errorf("%s calls %q; switch that off", filepath.Base(r.program), called)
	}
	return string(out)
}

// outside is a proxy that refuses all calls, and records their hosts.
type outside struct {
	mu     sync.Mutex
	called []string
}

func (o *outside) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	o.called = append(o.called, r.Host)
	o.mu.Unlock()
	http.Error(w, "only this machine may be called", http.StatusForbidden)
}

func (o *outside) hosts() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.called
}

// env returns the variables by which the clients know their endpoint.
func (d sdkEndpoint) env() []string {
	env := []string{
		"OPENAI_BASE_URL=" + d.openAI, "OPENAI_API_KEY=" + d.key,
		"ANTHROPIC_BASE_URL=" + d.anthropic, "ANTHROPIC_API_KEY=" + d.key,
		"GEMINI_BASE_URL=" + d.gemini, "GEMINI_API_KEY=" + d.key, "AZURE_ENDPOINT=" + d.azure,
	}
	if d.organization != "" {
		env = append(env, "ORGANIZATION="+d.organization)
	}
	return env
}

// sdkResponses is a vendor that has the Responses API.
var sdkResponses = addVendor(vendor{
	name: "sdk-responses", dialect: "openai", model: "sdk-responses", upstream: "gpt-5-sdk-responses-upstream", more: object{"responses": true},
})

// npmScripts maps each script of deploy/clients to the conditions under which it runs. package.json says which major
// version of a client the condition previous selects.
var npmScripts = map[string][]string{
	"openai.mjs": {"newest", "previous"}, "anthropic.mjs": {"newest", "previous"}, "genai.mjs": {"newest", "previous"},
	"ai-sdk.mjs": {"newest", "previous"}, "agents.mjs": {"newest"}, "langchain.mjs": {"newest"},
}

// The SDKs of npm work unmodified except for base URL and key, under each condition of npmScripts. Each script checks
// what its SDK returns.
func TestNPMClients(t *testing.T) {
	t.Parallel()
	npm := clients(t)
	h := use(t)
	models := append([]string{sdkResponses.model, sdkGemini.model}, sdkModels...)
	question := h.scripted(t, object{"text": `{"city":"Paris"}`})
	thinking := h.scripted(t, object{
		"thinking": "I need the weather.", "tool_calls": []object{toolUse("get_weather", object{"city": "Paris"})},
		"then": []object{{"thinking": "It is sunny there.", "text": "It is warm"}},
	})
	for script, conditions := range npmScripts {
		for _, condition := range conditions {
			for _, d := range h.sdkEndpoints(t) {
				t.Run(script+" "+condition+" "+d.name, func(t *testing.T) {
					t.Parallel()
					programTurns.take(t, t.Name(), false)
					clientRun{npm.node(t), []string{"--conditions=" + condition, script}, npm.folder, append(d.env(),
						"MODELS="+strings.Join(models, ","), "EMBEDDING_MODEL="+embedding.model, "IMAGE_MODEL="+imageVendor.model,
						"OPENAI_BATCH_MODEL="+sdkBatchScripts["openai"].model, "ANTHROPIC_BATCH_MODEL="+sdkBatchScripts["anthropic"].model,
						"JSON_QUESTION="+question, "THINKING_QUESTION="+thinking,
					)}.run(t)
				})
			}
		}
	}
}
