package toolserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/deploy/fakes/fakestest"
	"switchyard.dev/deploy/fakes/fault"
	"switchyard.dev/deploy/fakes/toolserver"
)

// Tokens are given to the client that authenticates, for the one resource, and are taken until they end.
func TestIssuer(t *testing.T) {
	fake := toolserver.New(fault.Script{})
	form := map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	ask := func(body string) (status int, token, code string) {
		t.Helper()
		got := fakestest.Send(t, fake, http.MethodPost, "/oauth/token", body, form)
		var answer struct {
			Token string `json:"access_token"`
			Error string `json:"error"`
		}
		if err := json.Unmarshal(got.Body.Bytes(), &answer); err != nil {
			t.Fatal(err)
		}
		return got.Code, answer.Token, answer.Error
	}
	const client = "client_id=agent&client_secret=secret+of+the+fake%27s+client"
	const resource = "&grant_type=client_credentials&resource=http%3A%2F%2Fexample.com%2Fguarded"
	for body, want := range map[string]string{
		"client_id=agent&client_secret=x" + resource: "invalid_client", client + "&grant_type=password": "unsupported_grant_type",
		client + "&grant_type=client_credentials": "invalid_target", client + resource + "&resource=http%3A%2F%2Fexample.com": "invalid_target",
	} {
		if _, token, code := ask(body); code != want || token != "" {
			t.Errorf("%s: %s", body, code)
		}
	}
	call := func(token string) (int, string) {
		t.Helper()
		got := fakestest.Send(t, fake, http.MethodPost, "/guarded", `{"jsonrpc":"2.0","id":1,"method":"initialize"}`, map[string]string{"Accept": accept, "Authorization": "Bearer " + token})
		return got.Code, got.Header().Get("Www-Authenticate")
	}
	_, token, _ := ask(client + resource + "&scope=tools%3Acall")
	if status, _ := call(token); status != http.StatusOK {
		t.Errorf("with a token: %d", status)
	}
	for _, control := range []struct{ method, path, body, demand string }{
		{http.MethodPut, "/_client", `{"scope":"tools:write"}`, "insufficient_scope"},
		{http.MethodPut, "/_client", `{"scope":"tools:call","life_seconds":0,"secret":"x"}`, ""},
		{http.MethodDelete, "/_tokens", ``, "invalid_token"},
	} {
		fakestest.Send(t, fake, control.method, control.path, control.body, nil)
		if _, demand := call(token); control.demand == "" && demand != "" || !strings.Contains(demand, control.demand) {
			t.Errorf("after %s: %s", control.body, demand)
		}
	}
	if status, _, _ := ask(client + resource); status != http.StatusUnauthorized {
		t.Errorf("with the secret of before: %d", status)
	}
	if _, token, _ = ask("client_id=agent&client_secret=x" + resource); token == "" {
		t.Fatal("no token by the new secret")
	}
	if status, _ := call(token); status != http.StatusUnauthorized {
		t.Errorf("with a token that has ended: %d", status)
	}
}
