//go:build e2e

package e2e_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// offersAreUsed checks that what a registration offers beside tools is listed, used and billed through the edge, and that
// nothing else is.
func (h *harness) offersAreUsed(t *testing.T) {
	organization := unique("org")
	h.registerTools(t, organization, "files", 1.5, "resources", "prompts", "completions")
	service, customer := h.service(stack.Gateway, organization), h.customer(t, organization, "ai", "write")
	refused := func(path, method string, params object, code int64, reason string) {
		t.Helper()
		if _, failure := customer.rpc(t, path, method, params); failure.Get("code").Int() != code || failure.Get("data.reason").Str != reason {
			t.Errorf("%s: %s, want %d %s", method, failure.Raw, code, reason)
		}
	}
	greet := object{"name": "files__greet", "arguments": object{"who": "ada"}}
	refused(toolsPath, "prompts/get", greet, -31403, "server_untrusted")
	service.post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	waitFor(t, waitTimeout, "the level of trust", func() error {
		_, failure := customer.rpc(t, toolsPath+"/files", "prompts/list", nil)
		if failure.Exists() {
			return &unexpected{failure.Raw}
		}
		return nil
	})

	about, _ := customer.rpc(t, toolsPath, "server/discover", nil)
	for _, capability := range []string{"tools", "resources", "prompts", "completions"} {
		if !about.Get("capabilities." + capability).Exists() {
			t.Errorf("%s is not advertised: %s", capability, about.Raw)
		}
	}
	for method, want := range map[string]string{
		"resources/list": `resources.#(uri=="fake://b").hologram`, "resources/templates/list": `resourceTemplates.#(uriTemplate=="fake://echo/{text}")`,
		"prompts/list": `prompts.#(name=="files__greet")`,
	} {
		if list, failure := customer.rpc(t, toolsPath, method, nil); !list.Get(want).Exists() || list.Get("cacheScope").Str != "private" {
			t.Errorf("%s: %s %s", method, list.Raw, failure.Raw)
		}
	}
	if got, failure := customer.rpc(t, toolsPath, "resources/read", object{"uri": "fake://a"}); got.Get("contents.0.text").Str != "a" {
		t.Errorf("a resource: %s %s", got.Raw, failure.Raw)
	}
	if got, failure := customer.rpc(t, toolsPath+"/files", "resources/read", object{"uri": "fake://echo/x"}); got.Get("contents.0.text").Str != "x" {
		t.Errorf("a resource of a template: %s %s", got.Raw, failure.Raw)
	}
	refused(toolsPath, "resources/read", object{"uri": "fake://echo/x"}, -31404, "resource_not_found")
	if got, failure := customer.rpc(t, toolsPath, "prompts/get", greet); !strings.Contains(got.Get("messages.0.content.text").Str, "ada") {
		t.Errorf("a prompt: %s %s", got.Raw, failure.Raw)
	}
	ref := object{"ref": object{"type": "ref/prompt", "name": "files__greet"}, "argument": object{"name": "who", "value": "a"}}
	if got, failure := customer.rpc(t, toolsPath, "completion/complete", ref); got.Get("completion.values.1").Str != "ab" {
		t.Errorf("a completion: %s %s", got.Raw, failure.Raw)
	}
	h.toolRows(t, organization, []string{
		"completed resources/read", "completed resources/read", "completed prompts/get/greet", "completed completion/complete",
	})
	service.do(t, http.MethodPatch, serversPath+"/files", object{"features": []string{"tools"}}).want(t, http.StatusOK)
	waitFor(t, waitTimeout, "the end of the offer", func() error {
		if _, failure := customer.rpc(t, toolsPath+"/files", "prompts/list", nil); failure.Get("data.reason").Str != "feature_not_offered" {
			return &unexpected{failure.Raw}
		}
		return nil
	})
}

// unexpected is an answer that is another one than is waited for.
type unexpected struct{ text string }

func (u *unexpected) Error() string { return u.text }

// toolSessions checks that an older client gets a session through the edge, listens in it, and ends it, and that a modern
// one is notified of the same change.
func (h *harness) toolSessions(t *testing.T) {
	organization := unique("org")
	listing := h.registerTools(t, organization, "files", 0)
	service, customer := h.service(stack.Gateway, organization), h.customer(t, organization, "ai", "write")
	service.post(t, trustPath, object{"server_id": "files", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	older := customer.with("Accept", "application/json, text/event-stream")
	a := older.post(t, toolsPath, object{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": object{
		"protocolVersion": "2025-11-25", "capabilities": object{}, "clientInfo": object{"name": "old", "version": "1"},
	}}).want(t, http.StatusOK)
	id := a.header.Get("Mcp-Session-Id")
	if id == "" || !gjson.GetBytes(a.body, "result.capabilities.tools.listChanged").Bool() {
		t.Fatalf("%s %v", a.body, a.header)
	}
	older = older.with("Mcp-Session-Id", id, "MCP-Protocol-Version", "2025-11-25")
	ping := object{"jsonrpc": "2.0", "id": 2, "method": "ping"}
	older.post(t, toolsPath, ping).want(t, http.StatusOK)
	h.customer(t, organization, "ai", "write").with("Accept", "application/json, text/event-stream", "Mcp-Session-Id", id).post(t, toolsPath, ping).want(t, http.StatusNotFound)

	stream := older.events(t, http.MethodGet, toolsPath, nil)
	modern := customer.with("Accept", "application/json, text/event-stream", "MCP-Protocol-Version", "2026-07-28", "Mcp-Method", "subscriptions/listen").
		stream(t, toolsPath, object{"jsonrpc": "2.0", "id": "s", "method": "subscriptions/listen", "params": object{
			"notifications": object{"toolsListChanged": true}, "_meta": object{
				"io.modelcontextprotocol/protocolVersion": "2026-07-28", "io.modelcontextprotocol/clientCapabilities": object{},
			},
		}})
	if e, ok := modern.next(t); !ok || !strings.Contains(e.data, "notifications/subscriptions/acknowledged") {
		t.Fatalf("%+v", e)
	}
	service.post(t, serversPath+"/files/review", object{"listing_digest": listing, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)
	for name, s := range map[string]*eventStream{"older": stream, "modern": modern} {
		if e, ok := s.next(t); !ok || !strings.Contains(e.data, "notifications/tools/list_changed") {
			t.Errorf("the %s client: %+v", name, e)
		}
	}
	older.do(t, http.MethodDelete, toolsPath, nil).want(t, http.StatusNoContent)
	older.post(t, toolsPath, ping).want(t, http.StatusNotFound)
}
