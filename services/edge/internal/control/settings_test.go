package control_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/control"
)

// settingsOf returns what can be changed of a key, as the JSON of an answer shows it.
func settingsOf(t *testing.T, answer map[string]any) string {
	t.Helper()
	shown := make(map[string]any)
	for _, name := range []string{"name", "expires_at", "rate_limit", "tpm", "models", "budget", "class"} {
		value, ok := answer[name]
		if !ok {
			t.Errorf("no %s in %v", name, answer)
		}
		if value != nil && value != "" {
			shown[name] = value
		}
	}
	text, err := json.Marshal(shown)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// PATCH changes what it names, null removes it, and PUT replaces everything; each answer shows the key as it is then.
func TestSettings(t *testing.T) {
	x := newWorld(t)
	var key control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"],"environment":"test"}`, 201, &key)
	path := "/admin/v1/keys/" + key.ID
	const (
		all  = `{"budget":{"ceiling_cents":5000,"period":"month"},"class":"interactive","models":["gpt-5","b"],"name":"n","tpm":100000}`
		kept = `{"budget":{"ceiling_cents":1,"period":"day"},"class":"interactive","models":["gpt-5","b"],"name":"n"}`
		more = `{"class":"bulk","expires_at":"2100-01-01T00:00:00Z","models":["c"],"rate_limit":{"burst":6,"requests":6,"window_seconds":60}}`
	)
	for _, step := range []struct{ method, body, want string }{
		{"PATCH", all, all},
		{"PATCH", `{"tpm":null,"budget":{"ceiling_cents":1,"period":"day"}}`, kept},
		{"PATCH", `{"class":null,"models":[],"budget":null}`, `{"name":"n"}`},
		{"PATCH", `{"class":"standard"}`, `{"class":"standard","name":"n"}`},
		{"PATCH", `{"class":""}`, `{"name":"n"}`},
		{"PUT", all, all},
		{"PUT", more, more},
		{"PUT", `{"tpm":1,"name":"n","class":null}`, `{"name":"n","tpm":1}`},
		{"PUT", `{}`, `{}`},
	} {
		var changed, read map[string]any
		x.admin(t, step.method, path, step.body, 200, &changed)
		x.admin(t, "GET", path, "", 200, &read)
		if diff := cmp.Diff(changed, read); diff != "" {
			t.Errorf("%s %s, then GET (-changed +read):\n%s", step.method, step.body, diff)
		}
		if got := settingsOf(t, read); got != step.want {
			t.Errorf("%s %s: %s, want %s", step.method, step.body, got, step.want)
		}
		if read["product"] != "ai" || read["organization_id"] != "o" || read["environment"] != "test" {
			t.Errorf("%s %s changed more: %v", step.method, step.body, read)
		}
	}
	x.admin(t, "PUT", "/admin/v1/keys/key_none", `{}`, 404, nil)
	x.admin(t, "DELETE", path, "", 204, nil)
	x.admin(t, "PUT", path, `{}`, 409, nil)
	if w := x.do(t, "PUT", path, serviceToken, `{}`); w.Code != 403 {
		t.Errorf("a service's token: %d, want 403", w.Code)
	}
}

func TestTermsOfANewKey(t *testing.T) {
	x := newWorld(t)
	const terms = `"tpm":7,"models":["a"],"budget":{"ceiling_cents":5,"period":"total"},"class":"bulk"`
	const want = `{"budget":{"ceiling_cents":5,"period":"total"},"class":"bulk","models":["a"],"tpm":7}`
	var first, second map[string]any
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"],`+terms+`}`, 201, &first)
	id, _ := first["id"].(string)
	x.admin(t, "POST", "/admin/v1/keys/"+id+"/rotate", "", 201, &second)
	var list struct{ Keys []map[string]any }
	x.admin(t, "GET", "/admin/v1/keys?organization_id=o", "", 200, &list)
	if len(list.Keys) != 2 {
		t.Fatalf("%d keys, want 2", len(list.Keys))
	}
	for _, shown := range append(list.Keys, first, second) {
		shown["expires_at"] = nil // the first one ends after the overlap
		if got := settingsOf(t, shown); got != want {
			t.Errorf("%v has %s, want %s", shown["id"], got, want)
		}
	}
	var key string
	key, _ = second["key"].(string)
	x.chat(t, key)
	if got, want := x.calls[0].Terms, `{"key":"`+id+`",`+terms+`}`; got != want {
		t.Errorf("the successor's call has the terms %s, want %s", got, want)
	}
}

// The audit holds the new values, null for what was removed.
func TestAuditOfSettings(t *testing.T) {
	x := newWorld(t)
	var key control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"],"tpm":7,"rate_limit":{"requests":6,"window_seconds":60}}`, 201, &key)
	x.admin(t, "PATCH", "/admin/v1/keys/"+key.ID, `{"models":["a"],"tpm":null}`, 200, nil)
	x.admin(t, "PUT", "/admin/v1/keys/"+key.ID, `{"budget":{"ceiling_cents":5,"period":"day"},"class":"bulk"}`, 200, nil)
	var page struct {
		Entries []struct{ Details map[string]any }
	}
	x.admin(t, "GET", "/admin/v1/audit?key_id="+key.ID, "", 200, &page)
	var got []map[string]any
	for _, e := range page.Entries {
		got = append(got, e.Details)
	}
	if diff := cmp.Diff([]map[string]any{
		{
			"name": "", "expires_at": nil, "rate_limit": "", "tpm": nil, "models": nil,
			"budget": map[string]any{"ceiling_cents": 5.0, "period": "day"}, "class": "bulk", "plan": nil,
		},
		{"models": []any{"a"}, "tpm": nil},
		{"product": "ai", "permissions": []any{"read"}, "expires_at": nil, "tpm": 7.0, "rate_limit": "6/1m0s/6"},
	}, got); diff != "" {
		t.Errorf("details (-want +got):\n%s", diff)
	}
}

// A value that breaks a rule is refused by each operation, with its field, and changes nothing.
func TestSettingsRefused(t *testing.T) {
	x := newWorld(t)
	var key control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"],"tpm":7}`, 201, &key)
	const needed = `"organization_id":"o","product":"ai","permissions":["read"],`
	for body, want := range map[string]string{
		`"tpm":0`: "tpm: must be from 1", `"tpm":-1`: "tpm: must be from 1", `"tpm":1099511627777`: "tpm: must be from 1",
		`"tpm":1.5`: "tpm: has the wrong type", `"tpm":"many"`: "tpm: has the wrong type",
		`"models":"a"`: "models: has the wrong type", `"models":["a","a"]`: "models: must not hold", `"models":["a b"]`: "models: a name",
		`"models":[""]`: "models: a name", `"models":["sk-ant-api03-Zx81canaryQw27Rt63"]`: "models: seems to hold a key",
		`"models":["a` + strings.Repeat(`","b`, 32) + `"]`: "models: must hold at most 32",
		`"budget":{}`: "budget.ceiling_cents: must be from 1", `"budget":5`: "budget: has the wrong type",
		`"budget":{"ceiling_cents":0,"period":"day"}`:                  "budget.ceiling_cents: must be from 1",
		`"budget":{"ceiling_cents":1000000000001,"period":"day"}`:      "budget.ceiling_cents: must be from 1",
		`"budget":{"ceiling_cents":1}`:                                 "budget.period: must be day",
		`"budget":{"ceiling_cents":1,"period":"week"}`:                 "budget.period: must be day",
		`"budget":{"ceiling_cents":1,"period":1}`:                      "budget.period: has the wrong type",
		`"budget":{"ceiling_cents":1,"period":"day","currency":"EUR"}`: "budget.currency: is not a field",
		`"class":"urgent"`: "class: must be interactive", `"class":1`: "class: has the wrong type", `"product_class":1`: "product_class: is not a field",
		`"rate_limit":{}`: "rate_limit: ", `"name":"sk-ant-api03-Zx81canaryQw27Rt63"`: "name: seems to hold a key",
		`"expires_at":"2000-01-01T00:00:00Z"`: "expires_at: must lie in the future",
	} {
		for method, operation := range map[string]struct{ path, body string }{
			"POST":  {"/admin/v1/keys", "{" + needed + body + "}"},
			"PUT":   {"/admin/v1/keys/" + key.ID, "{" + body + "}"},
			"PATCH": {"/admin/v1/keys/" + key.ID, "{" + body + "}"},
		} {
			w := x.do(t, method, operation.path, operatorToken, operation.body)
			if w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), `"reason":"`+want) {
				t.Errorf("%s %s: %d %s, want %s", method, body, w.Code, w.Body, want)
			}
		}
	}
	for body, want := range map[string]string{"": "body: is required", "null": "body: is required", `{"product":"ai"}`: "product: is not a field", "[]": "body: "} {
		if w := x.do(t, "PUT", "/admin/v1/keys/"+key.ID, operatorToken, body); w.Code != 400 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("PUT %q: %d %s, want %s", body, w.Code, w.Body, want)
		}
	}
	var read control.Key
	x.admin(t, "GET", "/admin/v1/keys/"+key.ID, "", 200, &read)
	if *read.TokensPerMinute != 7 {
		t.Errorf("a refused change left %d tokens a minute, want 7", *read.TokensPerMinute)
	}
}
