package api_test

import (
	"encoding/json"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/proto"

	"switchyard.dev/gen"
	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	optionsv1 "switchyard.dev/gen/go/switchyard/options/v1"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/apierr"
)

func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		apikey.ReasonInvalidKey, apikey.ReasonProductNotAllowed, apikey.ReasonPermissionDenied,
		proxy.ReasonUpstreamUnavailable, proxy.ReasonUpstreamTimeout, quota.ReasonExceeded, quota.ReasonCreditsExhausted,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("%s is not an ErrorReason", reason)
		}
	}
}

// Plans limit every metric under which a route is billed. Tokens, cents and credits limit exactly the metrics that the
// gateway's ledger bills.
func TestPlansHoldEveryMetric(t *testing.T) {
	billed := make(map[string]bool)
	operations := gatewayv1.BilledOperation(0).Descriptor().Values()
	for i := range operations.Len() {
		if metric, _ := proto.GetExtension(operations.Get(i).Options(), optionsv1.E_EdgeMetric).(string); metric != "" {
			billed[metric] = true
		}
	}
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Routes {
		if r.Metric == "" {
			continue
		}
		held := quota.Holds(r.Metric)
		spends := slices.Contains(held, plan.Tokens) && slices.Contains(held, plan.Cents) && slices.Contains(held, plan.Credits)
		switch {
		case len(held) == 0:
			t.Errorf("%s %s: quota.Holds doesn't say what holds %s", r.Method, r.Path, r.Metric)
		case r.Upstream == "gateway" && !billed[r.Metric]:
			t.Errorf("%s %s: no BilledOperation of the contract has the metric %s", r.Method, r.Path, r.Metric)
		case billed[r.Metric] != spends:
			t.Errorf("%s %s: held by %v, but the ledger bills it: %t", r.Method, r.Path, held, billed[r.Metric])
		}
	}
	for metric := range billed {
		if !slices.ContainsFunc(table.Routes, func(r route.Route) bool { return r.Metric == metric }) {
			t.Errorf("no route has the metric %s of a BilledOperation", metric)
		}
	}
}

// Each pattern of a service's contract has words, which errors say in its place.
func TestPatternsHaveWords(t *testing.T) {
	files, err := fs.Glob(gen.OpenAPI, "openapi/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d documents, %v", len(files), err)
	}
	found := 0
	var visit func(value any)
	visit = func(value any) {
		switch value := value.(type) {
		case []any:
			for _, item := range value {
				visit(item)
			}
		case map[string]any:
			if pattern, ok := value["pattern"].(string); ok {
				found++
				if rule, ok := apidoc.PatternRule(pattern); !ok || strings.ContainsAny(rule, "^$[]") {
					t.Errorf("%s has no words: %q", pattern, rule)
				}
			}
			for _, item := range value {
				visit(item)
			}
		}
	}
	for _, file := range files {
		text, err := fs.ReadFile(gen.OpenAPI, file)
		if err != nil {
			t.Fatal(err)
		}
		var document any
		if err := json.Unmarshal(text, &document); err != nil {
			t.Fatal(err)
		}
		visit(document)
	}
	if found == 0 {
		t.Error("the contracts have no pattern")
	}
}
