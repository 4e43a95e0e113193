//go:build k8s

package cluster

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	"switchyard.dev/deploy/examples/recipes"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/provider"
)

// TestMain hands calls of the programs that the cluster stands in for over to it.
func TestMain(m *testing.M) {
	if name := Called(); name != "" {
		os.Exit(Call(context.Background(), name))
	}
	code := m.Run()
	if bin := builtIn.Load(); bin != nil {
		_ = os.RemoveAll(*bin)
	}
	os.Exit(code)
}

// The page leads from an empty cluster to an answer, to its row in the ledger, to more replicas, through an upgrade and to
// the end: all code that it shows, in its order, by both ways to install.
func TestWalk(t *testing.T) {
	bin := programs(t)
	script := shown(t, filepath.Join(bin, "edge"), "start/cluster.html")
	for _, install := range []string{"kustomize", "helm"} {
		t.Run(install, func(t *testing.T) {
			t.Parallel()
			walk(t, bin, install, script)
		})
	}
}

// shown returns the code of a page as the edge's program writes it for readers.
func shown(t *testing.T, edge, page string) string {
	t.Helper()
	site := filepath.Join(t.TempDir(), "site")
	if out, err := exec.CommandContext(t.Context(), edge, "docs", site).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	file, err := os.Open(filepath.Join(site, page))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	script, err := recipes.Shown(file)
	if err != nil {
		t.Fatal(err)
	}
	return script
}

func walk(t *testing.T, bin, install, script string) {
	t.Helper()
	c := start(t, bin)
	var asked atomic.Int32
	fake := provider.New(fault.Script{})
	vendor := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/v1/chat/completions" && r.Header.Get("Authorization") == "Bearer "+vendorKey {
			asked.Add(1)
		}
		fake.ServeHTTP(w, r)
	}))
	defer vendor.Close()
	home, env := machine(t, c)
	env = append(append(env, values(t)...), "INSTALL="+install, "VENDOR_URL="+vendor.URL+"/v1")
	out, err := recipes.Run(t.Context(), home, env, script)
	if err != nil {
		t.Fatalf("the page's commands: %v\n%s\n%s", err, out, tails(t, c))
	}
	printed := string(out)
	for _, want := range []string{
		"2 of 2 replicas are healthy",
		`"provider": "openai",`, `"cost_pico_usd": "1600000",`, `"usage_state": "reported",`, // the row in the ledger
		`"metric": "llm_requests",`, `"count": 1`, // the count
		"303 https://" + host + "/portal/",
		`deployment.apps/notify scaled`, `namespace "switchyard" deleted`,
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("the page's commands print no %q", want)
		}
	}
	if n := strings.Count(printed, `"content":"You said: Hello"`); n != 2 || asked.Load() != 2 {
		t.Errorf("%d answers, and %d calls of the vendor with its key; want 2", n, asked.Load())
	}
	if n := strings.Count(printed, "successfully rolled out"); n != 11 { // two of all, one of what was scaled
		t.Errorf("%d rollouts, want 11", n)
	}
	if install == "kustomize" && !regexp.MustCompile(`configmap/gateway-config-[a-z0-9]{10} created`).MatchString(printed) {
		t.Error("a change of the vendors' file doesn't roll the pods: its ConfigMap has no digest")
	}
	if t.Failed() {
		t.Logf("the page's commands print:\n%s", printed)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.objects) > 0 || len(c.pods) > 0 {
		t.Errorf("%d objects and %d pods are left", len(c.objects), len(c.pods))
	}
}

// tails returns the last lines of all containers.
func tails(t *testing.T, c *Cluster) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(c.Logs(), "*.log"))
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&all, "%s: %s\n", filepath.Base(file), text[max(0, len(text)-2000):])
	}
	return all.String()
}
