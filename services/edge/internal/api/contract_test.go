package api_test

import (
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"switchyard.dev/gen"
	errorsv1 "switchyard.dev/gen/go/switchyard/errors/v1"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/platform/apidoc"
	"switchyard.dev/services/platform/apierr"
)

func TestReasonsAreOfTheContract(t *testing.T) {
	for _, reason := range []apierr.Reason{
		apikey.ReasonInvalidKey, apikey.ReasonProductNotAllowed, apikey.ReasonPermissionDenied,
		proxy.ReasonUpstreamUnavailable, proxy.ReasonUpstreamTimeout,
	} {
		if _, ok := errorsv1.ErrorReason_value["ERROR_REASON_"+strings.ToUpper(string(reason))]; !ok {
			t.Errorf("%s is not an ErrorReason", reason)
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
