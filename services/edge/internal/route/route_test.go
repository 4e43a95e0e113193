package route

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
)

var update = flag.Bool("update", false, "write the catalog")

func TestSnapshot(t *testing.T) {
	table, err := Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	got, err := json.MarshalIndent(table, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	const golden = "testdata/catalog.json" // A promise to customers: lines may be added, none changed.
	if *update {
		if err := os.WriteFile(golden, append(got, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("catalog (-want +got):\n%s", diff)
	}
	targets := map[string]string{}
	var scopes []apikey.Permission
	for _, r := range table.Routes {
		target := r.Upstream + " " + r.Target
		if before, ok := targets[r.Path]; ok && before != target {
			target = before + ", " + r.Method + " " + r.Target
		}
		targets[r.Path] = target
		scopes = append(scopes, r.Scope)
	}
	if diff := cmp.Diff(map[string]string{
		"/product/v1/ai/chat":                                       "gateway /v1/llm/chat",
		"/product/v1/ai/embeddings":                                 "gateway /v1/embeddings",
		"/product/v1/ai/vision":                                     "gateway /v1/vision",
		"/product/v1/ai/images/generations":                         "gateway /v1/images/generations",
		"/product/v1/webhooks/deliveries":                           "webhook-egress /v1/deliveries",
		"/product/v1/notifications/send":                            "notify /v1/notify",
		"/product/v1/notifications/sends/{notification_id}/updates": "notify /v1/notifications/sends/{notification_id}/updates",

		"/product/v1/webhooks/deliveries/{id}":                  "webhook-egress /v1/deliveries/{id}",
		"/product/v1/ai/runs":                                   "gateway /v1/runs/mint, GET /v1/runs",
		"/product/v1/ai/runs/{run_id}":                          "gateway /v1/runs/{run_id}/authority",
		"/product/v1/ai/runs/{run_id}/revoke":                   "gateway /v1/runs/{run_id}/revoke",
		"/product/v1/ai/sessions":                               "gateway /v1/sessions",
		"/product/v1/ai/sessions/{run_id}":                      "gateway /v1/sessions/{run_id}",
		"/product/v1/ai/sessions/{run_id}/abort":                "gateway /v1/sessions/{run_id}/abort",
		"/product/v1/alerts/rules":                              "control /v1/alerts/rules",
		"/product/v1/ai/approvers":                              "control /v1/approvers",
		"/product/v1/tokens":                                    "control /v1/tokens",
		"/product/v1/tokens/revoke":                             "control /v1/tokens/revoke",
		"/product/v1/ai/approvals":                              "gateway /v1/approvals",
		"/product/v1/ai/approvals/{ref}":                        "gateway /v1/approvals/{ref}",
		"/product/v1/ai/approvals/{ref}/approve":                "gateway /v1/approvals/{ref}/approve",
		"/product/v1/ai/approvals/{ref}/decision":               "control /v1/approvals/{ref}/decision",
		"/product/v1/ai/approvals/{ref}/deny":                   "gateway /v1/approvals/{ref}/deny",
		"/product/v1/ai/standing-approvals":                     "gateway /v1/approvals/standing",
		"/product/v1/ai/standing-approvals/{standing_id}":       "gateway /v1/approvals/standing/{standing_id}",
		"/product/v1/ai/usage":                                  "gateway /v1/usage",
		"/product/v1/ai/spend":                                  "gateway /v1/spend",
		"/product/v1/webhooks/deliveries/batch":                 "webhook-egress /v1/deliveries/batch",
		"/product/v1/webhooks/deliveries/{id}/attempts":         "webhook-egress /v1/deliveries/{id}/attempts",
		"/product/v1/webhooks/deliveries/{id}/resend":           "webhook-egress /v1/deliveries/{id}/resend",
		"/product/v1/webhooks/deliveries/{id}/cancel":           "webhook-egress /v1/deliveries/{id}/cancel",
		"/product/v1/webhooks/endpoints":                        "webhook-egress /v1/endpoints",
		"/product/v1/webhooks/endpoints/{id}":                   "webhook-egress /v1/endpoints/{id}",
		"/product/v1/webhooks/endpoints/{id}/test":              "webhook-egress /v1/endpoints/{id}/test",
		"/product/v1/webhooks/endpoints/{id}/rotate-secret":     "webhook-egress /v1/endpoints/{id}/rotate-secret",
		"/product/v1/webhooks/signing-keys":                     "webhook-egress /v1/signing-keys",
		"/product/v1/webhooks/events":                           "webhook-egress /v1/events",
		"/product/v1/webhooks/event-types":                      "webhook-egress /v1/event-types",
		"/product/v1/webhooks/event-types/{type}":               "webhook-egress /v1/event-types/{type}",
		"/product/v1/webhooks/replays":                          "webhook-egress /v1/replays",
		"/product/v1/webhooks/replays/{id}":                     "webhook-egress /v1/replays/{id}",
		"/product/v1/webhooks/replays/{id}/cancel":              "webhook-egress /v1/replays/{id}/cancel",
		"/product/v1/notifications/sends/{notification_id}":     "notify /v1/notifications/sends/{notification_id}",
		"/product/v1/notifications/inbox":                       "notify /v1/notifications",
		"/product/v1/notifications/inbox/unread-count":          "notify /v1/notifications/unread-count",
		"/product/v1/notifications/inbox/read-all":              "notify /v1/notifications/read-all",
		"/product/v1/notifications/inbox/stream":                "notify /v1/notifications/stream",
		"/product/v1/notifications/inbox/{id}/read":             "notify /v1/notifications/{id}/read",
		"/product/v1/notifications/inbox/{id}":                  "notify /v1/notifications/{id}",
		"/product/v1/notifications/push/vapid-public-key":       "notify /v1/push/vapid-public-key",
		"/product/v1/notifications/push/registrations":          "notify /v1/push/registrations",
		"/product/v1/notifications/push/registrations/{sub_id}": "notify /v1/push/registrations/{sub_id}",
		"/product/v1/notifications/push/history":                "notify /v1/push/history",

		"/product/v1/ai/openai/v1/chat/completions": "gateway /v1/chat/completions",
		"/product/v1/ai/openai/v1/responses":        "gateway /v1/responses",
		"/product/v1/ai/openai/v1/embeddings":       "gateway /v1/embeddings",

		"/product/v1/ai/azure/openai/responses":                                "gateway /openai/responses",
		"/product/v1/ai/azure/openai/deployments/{model}/chat/completions":     "gateway /openai/deployments/{model}/chat/completions",
		"/product/v1/ai/azure/openai/deployments/{model}/completions":          "gateway /openai/deployments/{model}/completions",
		"/product/v1/ai/azure/openai/deployments/{model}/embeddings":           "gateway /openai/deployments/{model}/embeddings",
		"/product/v1/ai/azure/openai/deployments/{model}/audio/speech":         "gateway /openai/deployments/{model}/audio/speech",
		"/product/v1/ai/azure/openai/deployments/{model}/audio/transcriptions": "gateway /openai/deployments/{model}/audio/transcriptions",
		"/product/v1/ai/azure/openai/deployments/{model}/audio/translations":   "gateway /openai/deployments/{model}/audio/translations",
		"/product/v1/ai/azure/openai/deployments/{model}/images/generations":   "gateway /openai/deployments/{model}/images/generations",
		"/product/v1/ai/azure/openai/deployments/{model}/images/edits":         "gateway /openai/deployments/{model}/images/edits",

		"/product/v1/ai/openai/v1/responses/compact":      "gateway /v1/responses/compact",
		"/product/v1/ai/openai/v1/responses/input_tokens": "gateway /v1/responses/input_tokens",

		"/product/v1/ai/openai/v1/completions":          "gateway /v1/completions",
		"/product/v1/ai/openai/v1/moderations":          "gateway /v1/moderations",
		"/product/v1/ai/openai/v1/audio/speech":         "gateway /v1/audio/speech",
		"/product/v1/ai/openai/v1/audio/transcriptions": "gateway /v1/audio/transcriptions",
		"/product/v1/ai/openai/v1/audio/translations":   "gateway /v1/audio/translations",
		"/product/v1/ai/openai/v1/images/generations":   "gateway /v1/images/generations",
		"/product/v1/ai/openai/v1/images/edits":         "gateway /v1/images/edits",
		"/product/v1/ai/openai/v1/images/variations":    "gateway /v1/images/variations",
		"/product/v1/ai/cohere/v2/rerank":               "gateway /v2/rerank",
		"/product/v1/ai/jina/v1/rerank":                 "gateway /v1/rerank",
		"/product/v1/mcp":                               "gateway /mcp",
		"/product/v1/mcp/{server}":                      "gateway /mcp/{server}",

		"/product/v1/ai/openai/v1/responses/{response_id}":             "gateway /v1/responses/{response_id}",
		"/product/v1/ai/openai/v1/responses/{response_id}/cancel":      "gateway /v1/responses/{response_id}/cancel",
		"/product/v1/ai/openai/v1/responses/{response_id}/input_items": "gateway /v1/responses/{response_id}/input_items",

		"/product/v1/ai/azure/openai/responses/compact":                   "gateway /openai/responses/compact",
		"/product/v1/ai/azure/openai/responses/input_tokens":              "gateway /openai/responses/input_tokens",
		"/product/v1/ai/azure/openai/responses/{response_id}":             "gateway /openai/responses/{response_id}",
		"/product/v1/ai/azure/openai/responses/{response_id}/cancel":      "gateway /openai/responses/{response_id}/cancel",
		"/product/v1/ai/azure/openai/responses/{response_id}/input_items": "gateway /openai/responses/{response_id}/input_items",

		"/product/v1/ai/openai/v1/files":                                  "gateway /v1/files",
		"/product/v1/ai/openai/v1/files/{file_id}":                        "gateway /v1/files/{file_id}",
		"/product/v1/ai/openai/v1/files/{file_id}/content":                "gateway /v1/files/{file_id}/content",
		"/product/v1/ai/openai/v1/batches":                                "gateway /v1/batches",
		"/product/v1/ai/openai/v1/batches/{batch_id}":                     "gateway /v1/batches/{batch_id}",
		"/product/v1/ai/openai/v1/batches/{batch_id}/cancel":              "gateway /v1/batches/{batch_id}/cancel",
		"/product/v1/ai/azure/openai/files":                               "gateway /openai/files",
		"/product/v1/ai/azure/openai/files/{file_id}":                     "gateway /openai/files/{file_id}",
		"/product/v1/ai/azure/openai/files/{file_id}/content":             "gateway /openai/files/{file_id}/content",
		"/product/v1/ai/azure/openai/batches":                             "gateway /openai/batches",
		"/product/v1/ai/azure/openai/batches/{batch_id}":                  "gateway /openai/batches/{batch_id}",
		"/product/v1/ai/azure/openai/batches/{batch_id}/cancel":           "gateway /openai/batches/{batch_id}/cancel",
		"/product/v1/ai/azure/openai/deployments/{model}/batches":         "gateway /openai/deployments/{model}/batches",
		"/product/v1/ai/anthropic/v1/messages/batches":                    "gateway /v1/messages/batches",
		"/product/v1/ai/anthropic/v1/messages/batches/{batch_id}":         "gateway /v1/messages/batches/{batch_id}",
		"/product/v1/ai/anthropic/v1/messages/batches/{batch_id}/cancel":  "gateway /v1/messages/batches/{batch_id}/cancel",
		"/product/v1/ai/anthropic/v1/messages/batches/{batch_id}/results": "gateway /v1/messages/batches/{batch_id}/results",

		"/product/v1/ai/openai/v1/models":                   "gateway /v1/models",
		"/product/v1/ai/openai/v1/models/{model...}":        "gateway /v1/models/by-id",
		"/product/v1/ai/anthropic/v1/messages":              "gateway /v1/messages",
		"/product/v1/ai/anthropic/v1/messages/count_tokens": "gateway /v1/messages/count_tokens",
		"/product/v1/ai/anthropic/v1/models":                "gateway /v1/models",
		"/product/v1/ai/anthropic/v1/models/{model...}":     "gateway /v1/models/by-id",

		"/product/v1/ai/gemini/v1beta/models/{model...}:generateContent":       "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1beta/models/{model...}:streamGenerateContent": "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1beta/models/{model...}:embedContent":          "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1beta/models/{model...}:batchEmbedContents":    "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1beta/models/{model...}:countTokens":           "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1beta/models":                                  "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1beta/models/{model...}":                       "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models/{model...}:generateContent":           "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models/{model...}:streamGenerateContent":     "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models/{model...}:embedContent":              "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models/{model...}:batchEmbedContents":        "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models/{model...}:countTokens":               "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models":                                      "gateway /v1beta/models",
		"/product/v1/ai/gemini/v1/models/{model...}":                           "gateway /v1beta/models",
	}, targets); diff != "" {
		t.Errorf("targets (-want +got):\n%s", diff)
	}
	slices.Sort(scopes)
	if diff := cmp.Diff(apikey.Scopes(), slices.Compact(scopes)); diff != "" {
		t.Errorf("scopes of package apikey and of routes (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"agents", "ai", "notifications", "platform", "webhooks"}, table.Products()); diff != "" {
		t.Errorf("products (-want +got):\n%s", diff)
	}
	served := table.Served([]string{"notify"})
	if len(served.Routes) != 14 || slices.ContainsFunc(served.Routes, func(r Route) bool { return r.Upstream != "notify" }) {
		t.Errorf("served with notify alone: %+v", served.Routes)
	}
	if len(table.Served(nil).Routes) != 0 {
		t.Error("routes are served without services")
	}
}

// Each scope for end users opens routes whose permission is its action: a key with that permission may give the scope.
// Routes of a scope that no permission includes have none.
func TestEndUserScopesHaveThePermissionOfTheirAction(t *testing.T) {
	table, err := Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range table.Routes {
		if r.Scope.ForEndUsers() && (r.Scope.Explicit() != (r.Permission == "") || r.Permission != "" && !strings.HasSuffix(string(r.Scope), ":"+string(r.Permission))) {
			t.Errorf("%s %s: scope %s, permission %s", r.Method, r.Path, r.Scope, r.Permission)
		}
	}
}

// All routes of a scope reach the same kind of records, so that an owner's link can either have the scope or not.
// Scopes for end users are exactly those that reach a user's records.
func TestScopesHaveOneKindOfRecords(t *testing.T) {
	table, err := Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[apikey.Permission]string{}
	for _, r := range table.Routes {
		if before, ok := kinds[r.Scope]; ok && before != r.ScopedBy {
			t.Errorf("%s %s: scoped by %s, and others of the scope %s by %s", r.Method, r.Path, r.ScopedBy, r.Scope, before)
		}
		kinds[r.Scope] = r.ScopedBy
		if r.Scope.ForEndUsers() != (r.ScopedBy == ScopedByUser) {
			t.Errorf("%s %s: the scope %s is scoped by %s", r.Method, r.Path, r.Scope, r.ScopedBy)
		}
	}
}

// What SDKs call is answered in their words, whatever comes of it.
func TestDialects(t *testing.T) {
	table, err := Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		"/product/v1/ai/openai/v1/chat/completions": "openai", "/product/v1/ai/openai/v9/nothing": "openai",
		"/product/v1/ai/anthropic/v1/messages": "anthropic", "/product/v1/ai/gemini/v1beta/models": "gemini", "/product/v1/ai/gemini/v1/models": "gemini", "/product/v1/ai/chat": "", "/product/v1/ai/openai": "",
	} {
		if got := table.Dialect(path); got != want {
			t.Errorf("%s: %q, want %q", path, got, want)
		}
	}
}

func TestJSONRPCErrors(t *testing.T) {
	table, err := Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"/product/v1/mcp": true, "/product/v1/mcp/": true, "/product/v1/mcp/files": true, "/product/v1/mcpx": false, "/product/v1/ai/chat": false, "": false,
	} {
		if table.JSONRPCErrors(path) != want {
			t.Errorf("%s: %v", path, !want)
		}
	}
}

func TestParseRefuses(t *testing.T) {
	good := "version: v1\nroutes:\n  - {method: POST, path: /product/v1/a, products: [ai], permission: read, scope: ai:chat:invoke, scoped_by: owner, metric: m, summary: s, example: '{}', upstream: u, target: /v1/a, timeout: 1s}\n"
	if _, err := parse([]byte(good)); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][2]string{
		"no version":           {"version: v1", "version: ''"},
		"unknown field":        {"metric: m", "metric: m, meter: x"},
		"no metric":            {"metric: m", "metric: ''"},
		"a pattern in between": {"/product/v1/a", "/product/v1/{a...}/b"},
		"a verb of nothing":    {"/product/v1/a", "/product/v1/a:b{c}"},
		"an empty verb":        {"/product/v1/a", "/product/v1/{a...}:"},
		"a nameless rest":      {"/product/v1/a", "/product/v1/{...}"},
		"an unknown dialect":   {"version: v1", "version: v1\ndialects: {/product/v1/a/: cobol}"},
		"plain elsewhere":      {"version: v1", "version: v1\nplain_errors: [/v1/a/]"},
		"plain in a dialect":   {"version: v1", "version: v1\ndialects: {/product/v1/a/: openai}\nplain_errors: [/product/v1/a/b/]"},
		"JSON-RPC elsewhere":   {"version: v1", "version: v1\njsonrpc_errors: [/v1/a]"},
		"JSON-RPC and a slash": {"version: v1", "version: v1\njsonrpc_errors: [/product/v1/a/]"},
		"JSON-RPC of others":   {"version: v1", "version: v1\ndialects: {/product/v1/a/: openai}\njsonrpc_errors: [/product/v1/a]"},
		"JSON-RPC and plain":   {"version: v1", "version: v1\nplain_errors: [/product/v1/a/]\njsonrpc_errors: [/product/v1/a]"},
		"a dialect elsewhere":  {"version: v1", "version: v1\ndialects: {/v1/a/: openai}"},
		"outside of product":   {"/product/v1/a", "/v1/a"},
		"the edge's own":       {"/product/v1/a", "/product/v1/_meta/a"},
		"a pattern":            {"/product/v1/a", "/product/v1/a_{id}"},
		"permission":           {"permission: read", "permission: admin"},
		"no permission":        {"permission: read", "permission: ''"},
		"no scope":             {"scope: ai:chat:invoke", "scope: ''"},
		"a whole area":         {"ai:chat:invoke", "ai:*"},
		"an unknown scope":     {"ai:chat:invoke", "ai:chat:write"},
		"no scope of records":  {"scoped_by: owner, ", ""},
		"records of others":    {"scoped_by: owner", "scoped_by: everyone"},
		"an organization":      {"metric: m", "metric: m, query: [limit, organization_id]"},
		"an example for GET":   {"method: POST", "method: GET"},
		"no summary":           {"summary: s", "summary: ''"},
		"no example":           {"example: '{}'", "example: ''"},
		"half an example":      {"example: '{}'", "example: '{'"},
		"target":               {"target: /v1/a", "target: http://elsewhere/v1/a"},
		"timeout":              {"timeout: 1s", "timeout: 0s"},
		"twice":                {"routes:\n", "routes:\n" + strings.SplitAfter(good, "\n")[2]},
	} {
		if _, err := parse([]byte(strings.Replace(good, change[0], change[1], 1))); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
}
