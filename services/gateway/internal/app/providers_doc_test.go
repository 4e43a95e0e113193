package app

import (
	"flag"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/testkit"
)

var updateProviders = flag.Bool("update-providers", false, "write the requests of docs/providers.md anew")

// echo records the request that a provider makes, as it is documented.
type echo struct{ sent string }

func (e *echo) Transport(network.Route) (http.RoundTripper, error) { return e, nil }

func (e *echo) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s\n", r.Method, r.URL)
	for _, name := range slices.Sorted(maps.Keys(r.Header)) {
		if name != "User-Agent" && name != "Content-Type" {
			fmt.Fprintf(&text, "%s: %s\n", name, strings.Join(r.Header[name], ", "))
		}
	}
	text.Write(body)
	e.sent = text.String()
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, err
}

// example is an entry of the page.
type example struct {
	title, settings, request string
	// from and to are the lines of the request, behind the settings.
	from, to int
}

// examples returns the entries of the page: in each section the first indented text are settings, and the second is the
// request.
func examples(lines []string) []*example {
	var all []*example
	var title string
	for i := 0; i < len(lines); i++ {
		if found, ok := strings.CutPrefix(lines[i], "### "); ok {
			title = found
			continue
		}
		if !strings.HasPrefix(lines[i], "    ") {
			continue
		}
		begin := i
		for i < len(lines) && (strings.HasPrefix(lines[i], "    ") || lines[i] == "" && i+1 < len(lines) && strings.HasPrefix(lines[i+1], "    ") && lines[begin] != "    providers:") {
			i++
		}
		var block strings.Builder
		for _, line := range lines[begin:i] {
			block.WriteString(strings.TrimPrefix(line, "    ") + "\n")
		}
		if lines[begin] == "    providers:" {
			all = append(all, &example{title: title, settings: block.String(), from: i, to: i})
			continue
		}
		last := all[len(all)-1]
		last.request, last.to = strings.TrimSuffix(block.String(), "\n"), i
	}
	return all
}

// Every example of the page is parsed, planned and called, and makes the request that stands behind it.
func TestProvidersPage(t *testing.T) {
	const page = "../../docs/providers.md"
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(string(text), "\n")
	all := examples(lines)
	if len(all) < 25 {
		t.Fatalf("%d examples are found", len(all))
	}
	keys := t.TempDir()
	sent := make([]string, len(all))
	for i, e := range all {
		t.Run(e.title, func(t *testing.T) {
			sent[i] = callExample(t, e, keys)
			if diff := cmp.Diff(sent[i], e.request); diff != "" && !*updateProviders {
				t.Errorf("the page's request differs from the one made; if it is right, run: go test ./internal/app -run ProvidersPage -update-providers (-made +page):\n%s", diff)
			}
		})
	}
	if *updateProviders {
		for i, e := range slices.Backward(all) {
			block := []string{"", "Sends:", ""}
			for line := range strings.SplitSeq(sent[i], "\n") {
				block = append(block, "    "+line)
			}
			if e.request != "" {
				block = block[3:]
				e.from = e.to - strings.Count(e.request, "\n") - 1
			}
			lines = slices.Replace(lines, e.from, e.to, block...)
		}
		testkit.WriteFile(t, page, strings.Join(lines, "\n"))
	}
}

// callExample calls the first model of an example, and returns the request that was made.
func callExample(t *testing.T, e *example, dir string) string {
	t.Helper()
	cfg := Config{FleetKeysDir: dir}
	files, err := readFiles(cfg)
	if err != nil {
		t.Fatal(err)
	}
	files.extra = policy.Source{Name: "docs/providers.md", Text: []byte(e.settings), KeysDir: dir}
	rules, err := policy.Parse(files.policy, files.extra)
	if err != nil {
		t.Fatal(err)
	}
	vendor := exampleProvider(t, rules, e)
	for _, c := range vendor.Pool() {
		testkit.WriteFile(t, filepath.Join(dir, filepath.Base(c.KeyFile)), "KEY")
	}
	keys, err := newKeyring(cfg, slog.New(slog.DiscardHandler), nil, rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	credentials, err := keys.Resolve(t.Context(), keyring.Scope{Organization: "acme"}, vendor.Name)
	if err != nil {
		t.Fatal(err)
	}
	over := new(echo)
	made, err := newProvider(over, *vendor)
	if err != nil {
		t.Fatal(err)
	}
	request := routing.Request{Provider: vendor.Name, Model: vendor.Models[0].Name}
	if vendor.Dialect == "cohere" {
		request.Operation = provider.OperationEmbeddings
	}
	plan, err := routing.NewPlan(rules, request, routing.State{})
	if err != nil || plan.Candidates[0].Provider != vendor.Name {
		t.Fatalf("planned %+v, %v", plan.Candidates, err)
	}
	upstream := plan.Candidates[0].Upstream
	if vendor.Dialect == "cohere" {
		_, _ = made.(provider.Embedder).Embed(t.Context(), credentials[0], &provider.Embedding{Model: upstream, Input: []string{"hi"}})
		return over.sent
	}
	_, _ = made.(provider.ChatProvider).Chat(t.Context(), credentials[0], &provider.Chat{
		Model: upstream, MaxTokens: 64, Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}}},
	})
	return over.sent
}

// exampleProvider returns the provider that an example adds to the shipped policy.
func exampleProvider(t *testing.T, rules *policy.Policy, e *example) *policy.Provider {
	t.Helper()
	_, rest, _ := strings.Cut(e.settings, "- name: ")
	name, _, _ := strings.Cut(rest, "\n")
	for i := range rules.Providers {
		if rules.Providers[i].Name == name {
			return &rules.Providers[i]
		}
	}
	t.Fatalf("the example's provider %q is not in the policy", name)
	return nil
}
