//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// noResource is what a path names that belongs to no organization: a model.
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
	"GET /product/v1/webhooks/replays/{id}":                               "replay",
	"POST /product/v1/webhooks/replays/{id}/cancel":                       "replay",
	"GET /product/v1/notifications/sends/{notification_id}":               "send",
	"PUT /product/v1/notifications/inbox/{id}/read":                       "record",
	"DELETE /product/v1/notifications/inbox/{id}":                         "record",
	"DELETE /product/v1/notifications/push/registrations/{sub_id}":        "registration",
	"GET /product/v1/ai/runs/{run_id}":                                    "run",
	"POST /product/v1/ai/runs/{run_id}/revoke":                            "run",
	"GET /product/v1/ai/approvals/{ref}":                                  "approval",
	"POST /product/v1/ai/approvals/{ref}/approve":                         "approval",
	"POST /product/v1/ai/approvals/{ref}/deny":                            "approval",
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
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:generateContent":       noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:streamGenerateContent": noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:embedContent":          noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:batchEmbedContents":    noResource,
	"POST /product/v1/ai/gemini/v1beta/models/{model...}:countTokens":           noResource,
}

// moving are the resources that change by themselves.
var moving = []string{"delivery", "replay", "send", "batch", "message batch"}

// edgeRoute is a route of the catalog with an example of its body.
type edgeRoute struct {
	Method, Path string
	Products     []string
	example      string
}

func (r edgeRoute) String() string { return r.Method + " " + r.Path }

// dialect reports whether the route is one of another API.
func (r edgeRoute) dialect() bool {
	return regexp.MustCompile(`^/product/v1/ai/(openai|anthropic|azure|gemini|cohere|jina)/`).MatchString(r.Path)
}

var parameter = regexp.MustCompile(`\{[^}]+\}`)

// edgeRoutes returns the routes that the edge serves.
func (h *harness) edgeRoutes(t *testing.T) []edgeRoute {
	t.Helper()
	var catalog struct{ Routes []edgeRoute }
	h.anonymous(stack.Edge).get(t, "/product/v1/_meta/catalog").into(t, http.StatusOK, &catalog)
	var document struct {
		Paths map[string]map[string]struct {
			RequestBody struct {
				Content map[string]struct{ Example json.RawMessage }
			} `json:"requestBody"`
		}
	}
	h.anonymous(stack.Edge).get(t, "/openapi.json").into(t, http.StatusOK, &document)
	for i, r := range catalog.Routes {
		operation := document.Paths[strings.Replace(r.Path, "...}", "}", 1)][strings.ToLower(r.Method)]
		catalog.Routes[i].example = string(operation.RequestBody.Content["application/json"].Example)
	}
	return catalog.Routes
}

// customers are clients of one organization, by product.
type customers map[string]client

func (h *harness) customers(t *testing.T, organization string) customers {
	t.Helper()
	c := customers{}
	for _, product := range []string{"ai", "webhooks", "notifications"} {
		c[product] = h.customer(t, organization, product, "read,write,ai:approvals:decide")
	}
	return c
}

// of returns the client that opens a route.
func (c customers) of(r edgeRoute) client {
	for _, product := range r.Products {
		if found, ok := c[product]; ok {
			return found
		}
	}
	return client{}
}

// estate creates one resource of each kind over the edge, with one unique text in each, and returns their
// ids.
func (h *harness) estate(t *testing.T, organization, secret string, c customers) map[string]string {
	t.Helper()
	made := func(a answer, path string) string {
		id := gjson.GetBytes(a.body, path).Str
		if a.status/100 != 2 || id == "" {
			t.Fatalf("%s: %d without %s: %s", a.label, a.status, path, shorten(a.body))
		}
		return id
	}
	ids := map[string]string{}
	webhooks, notifications, ai := c["webhooks"], c["notifications"], c["ai"]
	to := h.receiver().url() + "/" + secret
	ids["endpoint"] = made(webhooks.post(t, "/product/v1/webhooks/endpoints", object{"url": to, "event_types": []string{"order.*"}, "description": secret}), "endpoint_id")
	ids["delivery"] = made(webhooks.post(t, "/product/v1/webhooks/events", object{"event_type": "order.paid", "payload": object{"text": secret}}), "deliveries.0.delivery_id")
	since := time.Now().Add(-time.Hour).UTC().Format(time.RFC3339)
	ids["replay"] = made(webhooks.post(t, "/product/v1/webhooks/replays", object{"filter": object{"status": []string{"failed"}, "created_after": since}}), "replay_id")

	ids["send"] = made(notifications.post(t, sendRoute, object{"channels": []string{"in_app"}, "subject": secret, "message": secret, "target": object{"user_id": "ann"}}), "notification_id")
	ids["record"] = made(notifications.get(t, "/product/v1/notifications/inbox?user_id=ann"), "notifications.0.id")
	b := h.browser(t, organization)
	ids["registration"] = made(notifications.post(t, "/product/v1/notifications/push/registrations", object{
		"user_id": "ann", "site_id": secret, "subscription": object{"endpoint": b.Endpoint, "keys": b.Keys},
	}), "sub_id")

	ids["run"] = made(ai.post(t, "/product/v1/ai/runs", object{"max_calls": 5, "metadata": object{"text": secret}}), "run_id")
	ids["approval"] = made(ai.post(t, "/product/v1/ai/approvals", object{"tool": "refund", "requested_by": "agent", "description": secret}), "ref")
	ids["response"] = made(ai.post(t, "/product/v1/ai/openai/v1/responses", object{"model": "sandbox", "input": secret}), "id")
	files := ai
	files.base += "/product/v1/ai/openai"
	line := `{"custom_id":"one","method":"POST","url":"/v1/chat/completions","body":{"model":"sandbox","messages":[{"role":"user","content":"` + secret + `"}]}}` + "\n"
	ids["file"] = made(files.upload(t, line), "id")
	ids["batch"] = made(files.post(t, "/v1/batches", object{"input_file_id": ids["file"], "endpoint": "/v1/chat/completions", "completion_window": "24h", "metadata": object{"text": secret}}), "id")
	ids["message batch"] = made(ai.post(t, "/product/v1/ai/anthropic/v1/messages/batches", object{"requests": []object{{
		"custom_id": "one", "params": object{"model": "sandbox", "max_tokens": 64, "messages": []object{{"role": "user", "content": secret}}},
	}}}), "id")
	return ids
}

// Every route that names a resource, called by another organization that may do everything: 403 or 404, nothing of the
// owner in the answer, and nothing of the owner's has changed.
func TestEdgeForeignResources(t *testing.T) {
	h := pushStack(t)
	owner, other, secret := unique("org"), unique("org"), unique("text")
	owners, others := h.customers(t, owner), h.customers(t, other)
	ids := h.estate(t, owner, secret, owners)
	routes := slices.DeleteFunc(h.edgeRoutes(t), func(r edgeRoute) bool { return !strings.Contains(r.Path, "{") })
	seen := map[string]bool{}
	before := h.reads(t, routes, owners, ids)
	for _, r := range routes {
		resource, ok := named[r.String()]
		if !ok {
			t.Errorf("%s: say in named which resource it names", r)
		}
		seen[r.String()] = true
		if resource == noResource {
			continue
		}
		id, ok := ids[resource]
		if !ok {
			t.Fatalf("%s: no %s was created", r, resource)
		}
		var body any
		if r.example != "" {
			body = r.example
		}
		a := others.of(r).with("Content-Type", "application/json").do(t, r.Method, parameter.ReplaceAllString(r.Path, id), body)
		if a.status != http.StatusForbidden && a.status != http.StatusNotFound {
			t.Errorf("%s of another organization: %d, want 403 or 404: %s", r, a.status, shorten(a.body))
		}
		reveals(t, a, owner, secret)
	}
	for route := range named {
		if !seen[route] {
			t.Errorf("named has %s, which the edge does not serve", route)
		}
	}
	after := h.reads(t, routes, owners, ids)
	for route, body := range before {
		if !slices.Contains(moving, named[route]) && !bytes.Equal(body, after[route]) {
			t.Errorf("%s: was %s, and after another organization's calls %s", route, shorten(body), shorten(after[route]))
		}
	}
}

// reads returns the owner's answers of all routes that read one resource.
func (h *harness) reads(t *testing.T, routes []edgeRoute, owners customers, ids map[string]string) map[string][]byte {
	t.Helper()
	bodies := map[string][]byte{}
	for _, r := range routes {
		resource := named[r.String()]
		if r.Method != http.MethodGet || resource == noResource || strings.HasSuffix(r.Path, "/results") { // not yet there
			continue
		}
		bodies[r.String()] = owners.of(r).get(t, parameter.ReplaceAllString(r.Path, ids[resource])).want(t, http.StatusOK).body
	}
	return bodies
}

// reveals fails if an answer has something of another organization.
func reveals(t *testing.T, a answer, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if bytes.Contains(a.body, []byte(text)) {
			t.Errorf("%s answers with %s, which is another organization's: %s", a.label, text, shorten(a.body))
		}
	}
}

// Lists show the key's organization only, whichever one the query names; a body that names another is refused.
func TestEdgeForeignOrganization(t *testing.T) {
	h := pushStack(t)
	owner, other, secret := unique("org"), unique("org"), unique("text")
	h.estate(t, owner, secret, h.customers(t, owner))
	others := h.customers(t, other)
	lists, bodies := 0, 0
	for _, r := range h.edgeRoutes(t) {
		switch path := parameter.ReplaceAllString(r.Path, "none"); {
		case r.Method == http.MethodGet && !strings.Contains(r.Path, "{") && !strings.HasSuffix(r.Path, "/stream"):
			lists++
			a := others.of(r).with("X-Organization-Id", owner).get(t, path+"?organization_id="+owner+"&user_id=ann")
			if a.status != http.StatusOK && a.status != http.StatusUpgradeRequired {
				t.Errorf("%s: %d: %s", r, a.status, shorten(a.body))
			}
			reveals(t, a, owner, secret)
		case r.example != "" && !r.dialect():
			bodies++
			var body object
			if err := json.Unmarshal([]byte(r.example), &body); err != nil {
				t.Fatalf("%s: example: %v", r, err)
			}
			a := others.of(r).do(t, r.Method, path, body.with(object{"organization_id": owner}))
			if a.status != http.StatusForbidden {
				t.Errorf("%s for another organization: %d, want 403: %s", r, a.status, shorten(a.body))
			}
		}
	}
	if lists < 15 || bodies < 20 {
		t.Errorf("only %d lists and %d bodies", lists, bodies)
	}
	for _, metric := range slices.Sorted(maps.Keys(map[string]bool{"deliveries": true, "events": true, "notifications_sent": true})) {
		if n := h.counted(t, other, metric); n != 0 {
			t.Errorf("%d %s were counted for refused calls", n, metric)
		}
	}
}

// The stream of an inbox passes the edge as it comes, resumes, and ends when its key is revoked.
func TestEdgeInboxStream(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization, user := unique("org"), unique("user")
	k := h.key(t, organization, "notifications", "notifications:inbox:read")
	reader, sender := h.anonymous(stack.Edge).bearer(k.Key), h.customer(t, organization, "notifications", "notifications:sends:write")
	const route = "/product/v1/notifications/inbox/stream"
	send := func() {
		sender.post(t, sendRoute, object{"channels": []string{"in_app"}, "message": "hello", "target": object{"user_id": user}}).want(t, http.StatusAccepted)
	}
	expect := func(s *eventStream, name string) {
		t.Helper()
		if e, ok := s.next(t); !ok || e.name != name {
			t.Fatalf("event %q, %t; want %s", e.name, ok, name)
		}
	}
	live := reader.events(t, http.MethodGet, route+"?user_id="+user, nil)
	expect(live, "ready")
	send()
	expect(live, "created")
	id := regexp.MustCompile(`(?m)^id: ?(\d+)$`).FindAllStringSubmatch(live.seen.String(), -1)
	live.leave()
	send()
	resumed := reader.with("Last-Event-ID", id[len(id)-1][1]).events(t, http.MethodGet, route+"?user_id="+user, nil)
	expect(resumed, "ready")
	expect(resumed, "created")
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for resumed.lines.Scan() {
		}
	}()
	h.operator(stack.Edge).do(t, http.MethodDelete, "/admin/v1/keys/"+k.ID, nil).want(t, http.StatusNoContent)
	select {
	case <-ended:
	case <-time.After(time.Second):
		t.Error("the stream goes on a second after its key was revoked")
	}
	sender.get(t, route).refusedWith(t, http.StatusForbidden, "notifications:inbox:read")
}
