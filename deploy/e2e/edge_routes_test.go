//go:build e2e

package e2e_test

import (
	"fmt"
	"maps"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/dev/stack"
)

// ownRoutes are the routes of a customer's own business beside those that send, with products, permission and metric.
var ownRoutes = map[string]string{
	"POST /product/v1/ai/runs":                                       "[ai agents platform] write ",
	"GET /product/v1/ai/runs":                                        "[ai agents platform] read ",
	"GET /product/v1/ai/runs/{run_id}":                               "[ai agents platform] read ",
	"POST /product/v1/ai/runs/{run_id}/revoke":                       "[ai agents platform] write ",
	"GET /product/v1/ai/sessions":                                    "[ai agents platform] read ",
	"GET /product/v1/ai/sessions/{run_id}":                           "[ai agents platform] read ",
	"POST /product/v1/ai/sessions/{run_id}/abort":                    "[ai agents platform] write ",
	"GET /product/v1/ai/approvers":                                   "[ai agents platform] read ",
	"PUT /product/v1/ai/approvers":                                   "[ai agents platform]  ",
	"GET /product/v1/alerts/rules":                                   "[ai agents platform webhooks notifications] read ",
	"PUT /product/v1/alerts/rules":                                   "[ai agents platform webhooks notifications] write ",
	"POST /product/v1/tokens":                                        "[notifications]  ",
	"POST /product/v1/tokens/revoke":                                 "[notifications]  ",
	"POST /product/v1/ai/approvals":                                  "[ai agents platform] write ",
	"GET /product/v1/ai/approvals":                                   "[ai agents platform] read ",
	"GET /product/v1/ai/approvals/{ref}":                             "[ai agents platform] read ",
	"POST /product/v1/ai/approvals/{ref}/approve":                    "[ai agents platform]  ",
	"POST /product/v1/ai/approvals/{ref}/deny":                       "[ai agents platform]  ",
	"GET /product/v1/ai/approvals/{ref}/decision":                    "[ai agents platform]  ",
	"POST /product/v1/ai/approvals/{ref}/decision":                   "[ai agents platform]  ",
	"GET /product/v1/ai/standing-approvals":                          "[ai agents platform] read ",
	"DELETE /product/v1/ai/standing-approvals/{standing_id}":         "[ai agents platform]  ",
	"POST /product/v1/mcp":                                           "[ai agents platform] write tool_requests",
	"POST /product/v1/mcp/{server}":                                  "[ai agents platform] write tool_requests",
	"GET /product/v1/mcp":                                            "[ai agents platform] write ",
	"GET /product/v1/mcp/{server}":                                   "[ai agents platform] write ",
	"DELETE /product/v1/mcp":                                         "[ai agents platform] write ",
	"DELETE /product/v1/mcp/{server}":                                "[ai agents platform] write ",
	"GET /product/v1/ai/usage":                                       "[ai agents platform] read ",
	"GET /product/v1/ai/spend":                                       "[ai agents platform] read ",
	"GET /product/v1/webhooks/deliveries":                            "[webhooks platform] read ",
	"GET /product/v1/webhooks/deliveries/{id}":                       "[webhooks platform] read ",
	"POST /product/v1/webhooks/deliveries/batch":                     "[webhooks platform] write delivery_batches",
	"GET /product/v1/webhooks/deliveries/{id}/attempts":              "[webhooks platform] read ",
	"POST /product/v1/webhooks/deliveries/{id}/resend":               "[webhooks platform] write deliveries",
	"POST /product/v1/webhooks/deliveries/{id}/cancel":               "[webhooks platform] write ",
	"POST /product/v1/webhooks/endpoints":                            "[webhooks platform] write ",
	"GET /product/v1/webhooks/endpoints":                             "[webhooks platform] read ",
	"GET /product/v1/webhooks/endpoints/{id}":                        "[webhooks platform] read ",
	"PATCH /product/v1/webhooks/endpoints/{id}":                      "[webhooks platform] write ",
	"DELETE /product/v1/webhooks/endpoints/{id}":                     "[webhooks platform] write ",
	"POST /product/v1/webhooks/endpoints/{id}/test":                  "[webhooks platform] write deliveries",
	"POST /product/v1/webhooks/endpoints/{id}/rotate-secret":         "[webhooks platform] write ",
	"GET /product/v1/webhooks/signing-keys":                          "[webhooks platform] read ",
	"GET /product/v1/webhooks/event-types":                           "[webhooks platform] read ",
	"GET /product/v1/webhooks/event-types/{type}":                    "[webhooks platform] read ",
	"PUT /product/v1/webhooks/event-types/{type}":                    "[webhooks platform] write ",
	"DELETE /product/v1/webhooks/event-types/{type}":                 "[webhooks platform] write ",
	"POST /product/v1/webhooks/events":                               "[webhooks platform] write events",
	"POST /product/v1/webhooks/replays":                              "[webhooks platform] write replays",
	"GET /product/v1/webhooks/replays":                               "[webhooks platform] read ",
	"GET /product/v1/webhooks/replays/{id}":                          "[webhooks platform] read ",
	"POST /product/v1/webhooks/replays/{id}/cancel":                  "[webhooks platform] write ",
	"GET /product/v1/notifications/sends/{notification_id}":          "[notifications] read ",
	"POST /product/v1/notifications/sends/{notification_id}/updates": "[notifications] write notifications_sent",
	"GET /product/v1/notifications/inbox":                            "[notifications] read ",
	"GET /product/v1/notifications/inbox/unread-count":               "[notifications] read ",
	"PUT /product/v1/notifications/inbox/read-all":                   "[notifications] write ",
	"GET /product/v1/notifications/inbox/stream":                     "[notifications] read ",
	"PUT /product/v1/notifications/inbox/{id}/read":                  "[notifications] write ",
	"DELETE /product/v1/notifications/inbox/{id}":                    "[notifications] write ",
	"GET /product/v1/notifications/push/vapid-public-key":            "[notifications] read ",
	"POST /product/v1/notifications/push/registrations":              "[notifications] write ",
	"GET /product/v1/notifications/push/registrations":               "[notifications] read ",
	"DELETE /product/v1/notifications/push/registrations/{sub_id}":   "[notifications] write ",
	"GET /product/v1/notifications/push/history":                     "[notifications] read ",
}

func TestEdgeCatalog(t *testing.T) {
	t.Parallel()
	h := use(t)
	var catalog struct {
		Version string `json:"version"`
		Routes  []struct {
			Method     string   `json:"method"`
			Path       string   `json:"path"`
			Products   []string `json:"products"`
			Permission string   `json:"permission"`
			Scope      string   `json:"scope"`
			Metric     string   `json:"metric"`
		} `json:"routes"`
	}
	a := h.anonymous(stack.Edge).get(t, "/product/v1/_meta/catalog").into(t, http.StatusOK, &catalog)
	want := map[string]string{
		"POST " + chatRoute:     "[ai agents platform] read llm_requests",
		"POST " + deliveryRoute: "[webhooks platform] write deliveries",
		"POST " + sendRoute:     "[notifications] write notifications_sent",
	}
	maps.Copy(want, ownRoutes)
	for route, metric := range map[string]string{
		"POST /product/v1/ai/embeddings": "llm_requests", "POST /product/v1/ai/vision": "llm_requests", "POST /product/v1/ai/images/generations": "llm_requests",
		"POST /product/v1/ai/openai/v1/responses": "llm_requests", "GET /product/v1/ai/openai/v1/responses/{response_id}": "",
		"GET /product/v1/ai/openai/v1/responses":                       "llm_requests",
		"DELETE /product/v1/ai/openai/v1/responses/{response_id}":      "",
		"POST /product/v1/ai/openai/v1/responses/{response_id}/cancel": "", "GET /product/v1/ai/openai/v1/responses/{response_id}/input_items": "",
		"POST /product/v1/ai/openai/v1/chat/completions": "llm_requests", "POST /product/v1/ai/openai/v1/embeddings": "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/chat/completions":     "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/completions":          "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/embeddings":           "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/audio/speech":         "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/audio/transcriptions": "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/audio/translations":   "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/images/generations":   "llm_requests",
		"POST /product/v1/ai/azure/openai/deployments/{model}/images/edits":         "llm_requests",
		"POST /product/v1/ai/azure/openai/responses":                                "llm_requests",
		"POST /product/v1/ai/azure/openai/responses/compact":                        "llm_requests",
		"POST /product/v1/ai/azure/openai/responses/input_tokens":                   "",
		"GET /product/v1/ai/azure/openai/responses/{response_id}":                   "",
		"DELETE /product/v1/ai/azure/openai/responses/{response_id}":                "",
		"POST /product/v1/ai/azure/openai/responses/{response_id}/cancel":           "",
		"GET /product/v1/ai/azure/openai/responses/{response_id}/input_items":       "",
		"POST /product/v1/ai/openai/v1/responses/compact":                           "llm_requests",
		"POST /product/v1/ai/openai/v1/responses/input_tokens":                      "",
		"POST /product/v1/ai/openai/v1/files":                                       "",
		"GET /product/v1/ai/openai/v1/files":                                        "",
		"GET /product/v1/ai/openai/v1/files/{file_id}":                              "",
		"GET /product/v1/ai/openai/v1/files/{file_id}/content":                      "",
		"DELETE /product/v1/ai/openai/v1/files/{file_id}":                           "",
		"POST /product/v1/ai/openai/v1/batches":                                     "llm_requests",
		"GET /product/v1/ai/openai/v1/batches":                                      "",
		"GET /product/v1/ai/openai/v1/batches/{batch_id}":                           "",
		"POST /product/v1/ai/openai/v1/batches/{batch_id}/cancel":                   "",
		"POST /product/v1/ai/anthropic/v1/messages/batches":                         "llm_requests",
		"GET /product/v1/ai/anthropic/v1/messages/batches":                          "",
		"GET /product/v1/ai/anthropic/v1/messages/batches/{batch_id}":               "",
		"DELETE /product/v1/ai/anthropic/v1/messages/batches/{batch_id}":            "",
		"POST /product/v1/ai/anthropic/v1/messages/batches/{batch_id}/cancel":       "",
		"GET /product/v1/ai/anthropic/v1/messages/batches/{batch_id}/results":       "",
		"POST /product/v1/ai/azure/openai/files":                                    "",
		"GET /product/v1/ai/azure/openai/files":                                     "",
		"GET /product/v1/ai/azure/openai/files/{file_id}":                           "",
		"GET /product/v1/ai/azure/openai/files/{file_id}/content":                   "",
		"DELETE /product/v1/ai/azure/openai/files/{file_id}":                        "",
		"POST /product/v1/ai/azure/openai/deployments/{model}/batches":              "llm_requests",
		"POST /product/v1/ai/azure/openai/batches":                                  "llm_requests",
		"GET /product/v1/ai/azure/openai/batches":                                   "",
		"GET /product/v1/ai/azure/openai/batches/{batch_id}":                        "",
		"POST /product/v1/ai/azure/openai/batches/{batch_id}/cancel":                "",
		"POST /product/v1/ai/openai/v1/completions":                                 "llm_requests", "POST /product/v1/ai/openai/v1/moderations": "llm_requests",
		"POST /product/v1/ai/openai/v1/audio/speech": "llm_requests", "POST /product/v1/ai/openai/v1/audio/transcriptions": "llm_requests",
		"POST /product/v1/ai/openai/v1/audio/translations": "llm_requests", "POST /product/v1/ai/openai/v1/images/generations": "llm_requests",
		"POST /product/v1/ai/openai/v1/images/edits": "llm_requests", "POST /product/v1/ai/openai/v1/images/variations": "llm_requests",
		"POST /product/v1/ai/cohere/v2/rerank": "llm_requests", "POST /product/v1/ai/jina/v1/rerank": "llm_requests",
		"GET /product/v1/ai/openai/v1/models": "", "GET /product/v1/ai/openai/v1/models/{model...}": "",
		"POST /product/v1/ai/anthropic/v1/messages": "llm_requests", "POST /product/v1/ai/anthropic/v1/messages/count_tokens": "",
		"GET /product/v1/ai/anthropic/v1/models": "", "GET /product/v1/ai/anthropic/v1/models/{model...}": "",
		"POST /product/v1/ai/gemini/v1beta/models/{model...}:generateContent":       "llm_requests",
		"POST /product/v1/ai/gemini/v1/models/{model...}:generateContent":           "llm_requests",
		"POST /product/v1/ai/gemini/v1beta/models/{model...}:streamGenerateContent": "llm_requests",
		"POST /product/v1/ai/gemini/v1/models/{model...}:streamGenerateContent":     "llm_requests",
		"POST /product/v1/ai/gemini/v1beta/models/{model...}:embedContent":          "llm_requests",
		"POST /product/v1/ai/gemini/v1/models/{model...}:embedContent":              "llm_requests",
		"POST /product/v1/ai/gemini/v1beta/models/{model...}:batchEmbedContents":    "llm_requests",
		"POST /product/v1/ai/gemini/v1/models/{model...}:batchEmbedContents":        "llm_requests",
		"POST /product/v1/ai/gemini/v1beta/models/{model...}:countTokens":           "",
		"POST /product/v1/ai/gemini/v1/models/{model...}:countTokens":               "",
		"GET /product/v1/ai/gemini/v1beta/models":                                   "", "GET /product/v1/ai/gemini/v1beta/models/{model...}": "",
		"GET /product/v1/ai/gemini/v1/models": "", "GET /product/v1/ai/gemini/v1/models/{model...}": "",
	} {
		want[route] = "[ai agents platform] read " + metric
	}
	got := map[string]string{}
	for _, r := range catalog.Routes {
		if r.Scope == "" {
			t.Errorf("%s %s has no scope", r.Method, r.Path)
		}
		got[r.Method+" "+r.Path] = fmt.Sprint(r.Products, " ", r.Permission, " ", r.Metric)
	}
	if diff := cmp.Diff(want, got); diff != "" || catalog.Version != "v1" {
		t.Errorf("version %s, routes (-want +got):\n%s", catalog.Version, diff)
	}
	known := h.anonymous(stack.Edge).with("If-None-Match", a.header.Get("ETag"))
	known.get(t, "/product/v1/_meta/catalog").want(t, http.StatusNotModified)
}

// noResource is what a path names that belongs to no organization: a model, or a name that each organization may use.
const noResource = ""

// named is the resource that each route with a parameter names, see estate. A new route needs an entry.
var named = map[string]string{
	"GET /product/v1/webhooks/deliveries/{id}":                            "delivery",
	"GET /product/v1/webhooks/deliveries/{id}/attempts":                   "delivery",
	"POST /product/v1/webhooks/deliveries/{id}/resend":                    "delivery",
	"POST /product/v1/webhooks/deliveries/{id}/cancel":                    "delivery",
	"GET /product/v1/webhooks/endpoints/{id}":                             "endpoint",
	"PATCH /product/v1/webhooks/endpoints/{id}":                           "endpoint",
	"DELETE /product/v1/webhooks/endpoints/{id}":                          "endpoint",
	"POST /product/v1/webhooks/endpoints/{id}/test":                       "endpoint",
	"POST /product/v1/webhooks/endpoints/{id}/rotate-secret":              "endpoint",
	"GET /product/v1/webhooks/event-types/{type}":                         "event type",
	"DELETE /product/v1/webhooks/event-types/{type}":                      "event type",
	"PUT /product/v1/webhooks/event-types/{type}":                         noResource,
	"GET /product/v1/webhooks/replays/{id}":                               "replay",
	"POST /product/v1/webhooks/replays/{id}/cancel":                       "replay",
	"GET /product/v1/notifications/sends/{notification_id}":               "send",
	"POST /product/v1/notifications/sends/{notification_id}/updates":      "send",
	"PUT /product/v1/notifications/inbox/{id}/read":                       "record",
	"DELETE /product/v1/notifications/inbox/{id}":                         "record",
	"DELETE /product/v1/notifications/push/registrations/{sub_id}":        "registration",
	"GET /product/v1/ai/runs/{run_id}":                                    "run",
	"POST /product/v1/ai/runs/{run_id}/revoke":                            "run",
	"GET /product/v1/ai/sessions/{run_id}":                                "run",
	"POST /product/v1/ai/sessions/{run_id}/abort":                         "run",
	"GET /product/v1/ai/approvals/{ref}":                                  "approval",
	"POST /product/v1/ai/approvals/{ref}/approve":                         "approval",
	"POST /product/v1/ai/approvals/{ref}/deny":                            "approval",
	"GET /product/v1/ai/approvals/{ref}/decision":                         noResource, // Keys can't call it, see TestReadersDecideNothing.
	"POST /product/v1/ai/approvals/{ref}/decision":                        noResource,
	"DELETE /product/v1/ai/standing-approvals/{standing_id}":              noResource, // One takes an approved call of a tool: see decideInPortal.
	"GET /product/v1/ai/openai/v1/responses/{response_id}":                "response",
	"DELETE /product/v1/ai/openai/v1/responses/{response_id}":             "response",
	"POST /product/v1/ai/openai/v1/responses/{response_id}/cancel":        "response",
	"GET /product/v1/ai/openai/v1/responses/{response_id}/input_items":    "response",
	"GET /product/v1/ai/openai/v1/files/{file_id}":                        "file",
	"GET /product/v1/ai/openai/v1/files/{file_id}/content":                "file",
	"DELETE /product/v1/ai/openai/v1/files/{file_id}":                     "file",
	"GET /product/v1/ai/openai/v1/batches/{batch_id}":                     "batch",
	"POST /product/v1/ai/openai/v1/batches/{batch_id}/cancel":             "batch",
	"GET /product/v1/ai/anthropic/v1/messages/batches/{batch_id}":         "message batch",
	"DELETE /product/v1/ai/anthropic/v1/messages/batches/{batch_id}":      "message batch",
	"POST /product/v1/ai/anthropic/v1/messages/batches/{batch_id}/cancel": "message batch",
	"GET /product/v1/ai/anthropic/v1/messages/batches/{batch_id}/results": "message batch",
	"GET /product/v1/ai/azure/openai/responses/{response_id}":             "response",
	"DELETE /product/v1/ai/azure/openai/responses/{response_id}":          "response",
	"POST /product/v1/ai/azure/openai/responses/{response_id}/cancel":     "response",
	"GET /product/v1/ai/azure/openai/responses/{response_id}/input_items": "response",
	"GET /product/v1/ai/azure/openai/files/{file_id}":                     "file",
	"GET /product/v1/ai/azure/openai/files/{file_id}/content":             "file",
	"DELETE /product/v1/ai/azure/openai/files/{file_id}":                  "file",
	"GET /product/v1/ai/azure/openai/batches/{batch_id}":                  "batch",
	"POST /product/v1/ai/azure/openai/batches/{batch_id}/cancel":          "batch",

	"POST /product/v1/ai/azure/openai/deployments/{model}/chat/completions":     noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/completions":          noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/embeddings":           noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/audio/speech":         noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/audio/transcriptions": noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/audio/translations":   noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/images/generations":   noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/images/edits":         noResource,
	"POST /product/v1/ai/azure/openai/deployments/{model}/batches":              noResource,
	"GET /product/v1/ai/openai/v1/models/{model...}":                            noResource,
	"GET /product/v1/ai/anthropic/v1/models/{model...}":                         noResource,
	"GET /product/v1/ai/gemini/v1beta/models/{model...}":                        noResource,
	"GET /product/v1/ai/gemini/v1/models/{model...}":                            noResource,
	"POST /product/v1/mcp/{server}":                                             noResource,
	"GET /product/v1/mcp/{server}":                                              noResource,
	"DELETE /product/v1/mcp/{server}":                                           noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:generateContent":       noResource,
	"POST /product/v1/ai/gemini/v1/models/{model...}:generateContent":           noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:streamGenerateContent": noResource,
	"POST /product/v1/ai/gemini/v1/models/{model...}:streamGenerateContent":     noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:embedContent":          noResource,
	"POST /product/v1/ai/gemini/v1/models/{model...}:embedContent":              noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:batchEmbedContents":    noResource,
	"POST /product/v1/ai/gemini/v1/models/{model...}:batchEmbedContents":        noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:countTokens":           noResource,
	"POST /product/v1/ai/gemini/v1/models/{model...}:countTokens":               noResource,
}

// moving are the resources that change by themselves.
var moving = []string{"delivery", "replay", "send", "batch", "message batch"}
