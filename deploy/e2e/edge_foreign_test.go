//go:build e2e

package e2e_test

import (
	"bytes"
	"encoding/json"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// edgeRoute is a route of the catalog with an example of its body.
type edgeRoute struct {
	Method, Path string
	Products     []string
	example      string
}

func (r edgeRoute) String() string { return r.Method + " " + r.Path }

// dialect reports whether the route is one of another API.
func (r edgeRoute) dialect() bool {
	return regexp.MustCompile(`^/product/v1/(ai/(openai|anthropic|azure|gemini|cohere|jina)/|mcp(/|$))`).MatchString(r.Path)
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
		c[product] = h.customer(t, organization, product, "read,write,ai:approvals:decide,notifications:tokens:mint")
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
	ids["event type"] = made(webhooks.do(t, http.MethodPut, "/product/v1/webhooks/event-types/"+unique("type"), object{"description": secret}), "type")
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
	t.Parallel()
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
	t.Parallel()
	h := pushStack(t)
	owner, other, secret := unique("org"), unique("org"), unique("text")
	h.estate(t, owner, secret, h.customers(t, owner))
	others := h.customers(t, other)
	lists, bodies := 0, 0
	for _, r := range h.edgeRoutes(t) {
		switch path := parameter.ReplaceAllString(r.Path, "none"); {
		case r.Method == http.MethodGet && r.Path == toolsPath: // A stream of a session, which names its organization.
		case r.Method == http.MethodGet && !strings.Contains(r.Path, "{") && !strings.HasSuffix(r.Path, "/stream"):
			lists++
			a := others.of(r).with("X-Organization-Id", owner).get(t, path+"?organization_id="+owner+"&user_id=ann&interval=month&from="+presentMonth())
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
	for _, metric := range []string{"deliveries", "delivery_batches", "events", "replays", "notifications_sent", "llm_requests"} {
		if n := h.counted(t, other, metric); n != 0 {
			t.Errorf("%d %s were counted for refused calls", n, metric)
		}
	}
}

// presentMonth returns the beginning of the month, as reports of spend require it.
func presentMonth() string { return time.Now().UTC().Format("2006-01") + "-01T00:00:00Z" }

// A filter, a body or a path that refers to another organization's resources finds none of them.
func TestEdgeForeignReferences(t *testing.T) {
	t.Parallel()
	h := pushStack(t)
	owner, secret := unique("org"), unique("text")
	owners, others := h.customers(t, owner), h.customers(t, unique("org"))
	ids := h.estate(t, owner, secret, owners)
	empty := func(a answer, list string) {
		t.Helper()
		if n := gjson.GetBytes(a.want(t, http.StatusOK).body, list+".#").Int(); n != 0 {
			t.Errorf("%s has %d %s of another organization", a.label, n, list)
		}
	}
	empty(others["webhooks"].get(t, deliveryRoute+"?endpoint_id="+ids["endpoint"]), "deliveries")
	empty(others["ai"].get(t, "/product/v1/ai/runs"), "runs")
	empty(others["ai"].get(t, "/product/v1/ai/sessions"), "sessions")
	empty(others["ai"].get(t, "/product/v1/ai/approvals?run_id="+ids["run"]), "approvals")
	empty(others["ai"].get(t, "/product/v1/ai/usage?run_id="+ids["run"]), "records")
	empty(others["ai"].get(t, "/product/v1/ai/spend?interval=month&from="+presentMonth()), "rows")
	empty(others["notifications"].get(t, "/product/v1/notifications/push/registrations?site_id="+secret), "registrations")
	for name, call := range map[string]struct {
		product, route string
		body           object
	}{
		"a batch of a file":     {"ai", "/product/v1/ai/openai/v1/batches", object{"input_file_id": ids["file"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}},
		"a continued response":  {"ai", "/product/v1/ai/openai/v1/responses", object{"model": "sandbox", "input": "go on", "previous_response_id": ids["response"]}},
		"a delivery in a batch": {"webhooks", deliveryRoute + "/batch", object{"deliveries": []object{h.receiver().deliver(object{"organization_id": owner})}}},
	} {
		a := others[call.product].post(t, call.route, call.body)
		if a.status/100 != 4 {
			t.Errorf("%s: %d: %s", name, a.status, shorten(a.body))
		}
		reveals(t, a, owner, secret)
	}
	dry := others["webhooks"].post(t, "/product/v1/webhooks/replays", object{"filter": object{"delivery_ids": []string{ids["delivery"]}, "status": []string{"delivered"}}, "dry_run": true})
	if n := gjson.GetBytes(dry.want(t, http.StatusOK).body, "matched"); !n.Exists() || n.Int() != 0 {
		t.Errorf("a replay matches another organization's delivery: %s", dry.body)
	}
	// A value in a path is one segment, which leads to no other operation.
	for product, path := range map[string]string{
		"webhooks": deliveryRoute + "/" + ids["delivery"] + "%2Fattempts", "ai": "/product/v1/ai/openai/v1/files/" + ids["file"] + "%2Fcontent",
	} {
		owners[product].get(t, path).want(t, http.StatusNotFound)
	}
}

// The secrets of an endpoint are in no answer: not after its creation, not after a rotation. A key for other scopes cannot
// set one. Answers, logs and stores are searched for them after the run.
func TestEdgeEndpointSecrets(t *testing.T) {
	t.Parallel()
	h := use(t)
	organization := unique("org")
	first, second := unique("signing-secret-of-an-endpoint"), unique("next-secret-of-an-endpoint")
	knownSecrets.add("an endpoint's secret", first)
	knownSecrets.add("an endpoint's next secret", second)
	const route = "/product/v1/webhooks/endpoints"
	holder := h.customer(t, organization, "webhooks", "webhooks:endpoints:read,webhooks:endpoints:write")
	made := holder.post(t, route, object{
		"url": h.receiver().url(), "event_types": []string{"*"}, "signing_mode": "endpoint_body", "signing_secret": first,
	}).want(t, http.StatusCreated)
	path := route + "/" + gjson.GetBytes(made.body, "endpoint_id").Str
	rotated := holder.do(t, http.MethodPatch, path, object{"signing_secret": second}).want(t, http.StatusOK)
	reveals(t, made, first)
	for _, a := range []answer{rotated, holder.get(t, path), holder.get(t, route)} {
		reveals(t, a.want(t, http.StatusOK), first, second)
	}
	for _, permissions := range []string{"read", "webhooks:endpoints:read", "webhooks:deliveries:write,webhooks:events:write,webhooks:replays:write"} {
		h.customer(t, organization, "webhooks", permissions).do(t, http.MethodPatch, path, object{"signing_secret": second}).
			refused(t, http.StatusForbidden, "permission_denied", "webhooks:endpoints:write or write")
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
	case <-time.After(spreadTimeout):
		t.Error("the stream goes on after its key was revoked")
	}
	sender.get(t, route).refusedWith(t, http.StatusForbidden, "notifications:inbox:read")
}
