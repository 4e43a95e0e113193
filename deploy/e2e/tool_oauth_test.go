//go:build e2e

package e2e_test

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/deploy/dev/stack"
)

// toolsByOAuth calls a server that takes access tokens of its authorization server alone: they are got by a client's
// secret, replaced when they are refused, and what is wrong is said without one.
func (h *harness) toolsByOAuth(t *testing.T) {
	organization := unique("org")
	service, fake := h.service(stack.Gateway, organization), h.fake(stack.FakeTools)
	fake.do(t, http.MethodPut, "/_client", object{"secret": "first secret of a client"}).want(t, http.StatusNoContent)
	replace := func(secret string) {
		t.Helper()
		folder := filepath.Join(h.State(), "secrets", "gateway-organizations", organization)
		if err := os.MkdirAll(folder, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(folder, "client"), []byte(secret+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	replace("another secret")
	service.post(t, serversPath, object{
		"server_id": "guarded", "url": h.FakeURL(stack.FakeTools) + "/guarded", "registered_by": "ada",
		"credential": object{"secret_ref": "file:client", "oauth": object{"client_id": "agent", "scopes": []string{"tools:call"}}},
	}).want(t, http.StatusCreated)
	listed := func(about, path, want string) gjson.Result {
		t.Helper()
		var got gjson.Result
		waitFor(t, waitTimeout, about, func() error {
			service.post(t, serversPath+"/guarded/refresh", object{})
			if got = gjson.ParseBytes(service.get(t, serversPath+"/guarded").want(t, http.StatusOK).body); got.Get(path).String() != want {
				return fmt.Errorf("%s", got.Raw)
			}
			return nil
		})
		return got
	}
	if got := listed("the refusal of the client", "last_error_class", "unauthorized"); got.Get("last_error").Str != "no access token can be had: the authorization server answered with status 401: invalid_client" {
		t.Errorf("%s", got.Get("last_error").Str)
	}
	replace("first secret of a client")
	state := listed("the tools behind the token", "review_state", "pending")
	service.post(t, trustPath, object{"server_id": "guarded", "level": "COMMUNITY", "assigned_by": "ada"}).want(t, http.StatusCreated)
	service.post(t, serversPath+"/guarded/review", object{"listing_digest": state.Get("listing_digest").Str, "decision": "approve", "reviewed_by": "bob"}).want(t, http.StatusOK)

	echo := object{"name": "echo", "arguments": object{"text": "hello"}}
	called := func(about string) {
		t.Helper()
		waitFor(t, waitTimeout, about, func() error {
			if result, failure := service.rpc(t, "/mcp/guarded", "tools/call", echo); !result.Get("content.0.text").Exists() {
				return fmt.Errorf("%s", failure.Raw)
			}
			return nil
		})
	}
	called("a call")
	fake.do(t, http.MethodPut, "/_client", object{"secret": "second secret of a client"}).want(t, http.StatusNoContent)
	replace("second secret of a client")
	fake.do(t, http.MethodDelete, "/_tokens", nil).want(t, http.StatusNoContent)
	called("a call after the token was revoked and the secret replaced")

	fake.do(t, http.MethodPut, "/_client", object{"scope": "tools:write"}).want(t, http.StatusNoContent)
	_, failure := service.rpc(t, "/mcp/guarded", "tools/call", echo)
	if failure.Get("code").Int() != -31502 || failure.Get("data.reason").Str != "tool_server_unauthorized" {
		t.Errorf("without the scope: %s", failure.Raw)
	}
	if text := failure.Get("message").Str; text != `the call was not made: the server refused the gateway's credential: it demands the scope "tools:write"` {
		t.Errorf("without the scope: %s", text)
	}
	if n := gjson.GetBytes(fake.get(t, "/_tokens").want(t, http.StatusOK).body, "issued").Int(); n > 10 {
		t.Errorf("%d tokens were issued", n)
	}
}
