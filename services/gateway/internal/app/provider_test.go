package app

import (
	"log/slog"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/custody/keyring"
	"switchyard.dev/services/gateway/internal/money/price"
	"switchyard.dev/services/gateway/internal/operations/catalog"
	"switchyard.dev/services/gateway/internal/policy"
	"switchyard.dev/services/gateway/internal/serving/routing"
	"switchyard.dev/services/gateway/internal/vendors/network"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

// The shipped files are complete: each provider can be built, each model has a price, and a fresh system plans the
// sandbox, which is no other target's fallback.
func TestShippedPolicy(t *testing.T) {
	cfg := Config{ConnectTimeout: time.Second}
	rules, prices := readAll(t, cfg)
	if _, err := newProviders(direct{}, rules); err != nil {
		t.Fatal(err)
	}
	for _, vendor := range rules.Providers {
		for _, model := range vendor.Models {
			if !prices.Cost(vendor.Name, model.Name, time.Now(), provider.Usage{}).Known {
				t.Errorf("%s/%s has no price", vendor.Name, model.Name)
			}
			plan, err := routing.NewPlan(rules, routing.Request{Model: model.Name, Substitution: true}, routing.State{})
			if err != nil {
				t.Fatal(err)
			}
			for _, c := range plan.Candidates {
				if vendor.Name != "sandbox" && c.Provider == "sandbox" {
					t.Errorf("%s may be served by the sandbox", model.Name)
				}
			}
		}
	}
	checkChains(t, rules)
	plan, err := routing.NewPlan(rules, routing.Request{Model: policy.DefaultModel}, routing.State{})
	if err != nil || plan.Candidates[0].String() != "sandbox/sandbox" {
		t.Errorf("default plan %+v, %v, want the sandbox first", plan, err)
	}
}

func TestExtraProviders(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		testkit.WriteFile(t, path, text)
		return path
	}
	write("local.key", "sk-local")
	cfg := Config{ConnectTimeout: time.Second}
	cfg.ExtraProvidersFile = write("extra.yaml", `
providers:
  - {name: local, dialect: openai, base_url: "http://127.0.0.1:11434/v1", key_file: local.key, models: [{name: m, input_per_mtok_usd: 1, output_per_mtok_usd: 2}]}
  - {name: openai, dialect: openai, base_url: "http://127.0.0.1:9", models: [{name: gpt-5, input_per_mtok_usd: 7, output_per_mtok_usd: 8}, gpt-5-mini, gpt-5-nano, gpt-4o-mini]}
`)
	rules, prices := readAll(t, cfg)
	one := provider.Usage{Input: 1}
	if got := prices.Cost("local", "m", time.Now(), one); got.Amount != 1e6 || !got.Known {
		t.Errorf("cost %+v, want the price of the file", got)
	}
	if got := prices.Cost("openai", "gpt-5", time.Now(), one); got.Amount != 7e6 {
		t.Errorf("cost %+v, want the operator's price in place of the shipped one", got)
	}
	keys, err := newKeyring(cfg, slog.New(slog.DiscardHandler), nil, rules, nil)
	if err != nil {
		t.Fatal(err)
	}
	if key, err := keys.Resolve(t.Context(), keyring.Scope{}, "local"); err != nil || key[0].Key.Reveal() != "sk-local" {
		t.Errorf("key beside the file: %v", err)
	}

	for text, want := range map[string]string{
		"providers: [{name: x, dialect: klingon, base_url: https://x}]":                                "dialect",
		"providers: [{name: x, dialect: openai, base_url: x}]":                                         "provider x: base_url",
		"providers: [{name: x, dialect: sandbox, models: [{name: m, input_per_mtok_usd: 1}]}]":         "x/m",
		"providers: [{name: x, dialect: sandbox, models: [{name: m, input_per_mtok_usd: 1, out: 2}]}]": "no such field",
	} {
		cfg.ExtraProvidersFile = write("bad.yaml", text)
		f := &fleets{cfg: cfg, network: direct{}, log: slog.New(slog.DiscardHandler), models: catalog.NewStore(nil)}
		if _, err := f.read(time.Now()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want %q", text, err, want)
		}
	}
	cfg.ExtraProvidersFile = filepath.Join(dir, "absent.yaml")
	if _, err := readFiles(cfg); err == nil || !strings.Contains(err.Error(), "absent.yaml") {
		t.Errorf("a file that is not there: %v", err)
	}
}

// direct reaches every provider by the machine's own transport.
type direct struct{}

func (direct) Transport(network.Route) (http.RoundTripper, error) { return http.DefaultTransport, nil }

func readAll(t *testing.T, cfg Config) (*policy.Policy, *price.Table) {
	t.Helper()
	files, err := readFiles(cfg)
	if err != nil {
		t.Fatal(err)
	}
	rules, err := policy.Parse(files.policy, files.extra)
	if err != nil {
		t.Fatal(err)
	}
	prices, err := newPrices(files.prices, rules)
	if err != nil {
		t.Fatal(err)
	}
	return rules, prices
}

// checkChains checks that the defaults of embeddings, vision and images have two providers behind them, that each
// provider has a default for each of its operations, and that no model without tools is used for them.
func checkChains(t *testing.T, rules *policy.Policy) {
	t.Helper()
	for _, operation := range []provider.Operation{provider.OperationEmbeddings, provider.OperationVision, provider.OperationImages} {
		plan, err := routing.NewPlan(rules, routing.Request{Operation: operation, Substitution: true}, routing.State{})
		if err != nil || len(plan.Candidates) != 3 {
			t.Errorf("%s: %+v, %v, want three candidates", operation, plan.Candidates, err)
			continue
		}
		first, second, third := plan.Candidates[0].Provider, plan.Candidates[1].Provider, plan.Candidates[2].Provider
		if first != "sandbox" {
			t.Errorf("%s: the first candidate is of %s, want the sandbox", operation, first)
		}
		if second == third {
			t.Errorf("%s: both candidates after the sandbox are of %s, want two providers", operation, second)
		}
	}
	tools := routing.Request{Provider: "openai", Substitution: true, Needs: routing.Needs{Tools: true}}
	if plan, err := routing.NewPlan(rules, tools, routing.State{}); err != nil || plan.Candidates[0].Provider == "openai" {
		t.Errorf("tools: %+v, %v", plan.Candidates, err)
	}
	secret := routing.Request{Model: "gpt-5", Classification: "restricted", Substitution: true}
	if _, err := routing.NewPlan(rules, secret, routing.State{}); apierr.From(err).Reason != policy.ReasonDataClassification {
		t.Errorf("restricted data may leave: %v", err)
	}
	secret.Model = ""
	if plan, err := routing.NewPlan(rules, secret, routing.State{}); err != nil || len(plan.Candidates) != 1 || plan.Candidates[0].Provider != "sandbox" {
		t.Errorf("restricted data in the house: %+v, %v", plan.Candidates, err)
	}
}
