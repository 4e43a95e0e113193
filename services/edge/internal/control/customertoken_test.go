package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
)

// asKey calls an operation of customers, as the role serve relays it for a key.
func (x *world) asKey(t *testing.T, path string, key apikey.Key, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+serviceToken)
	r.Header.Set("X-Organization-Id", key.Organization)
	r.Header.Set("X-Key-Id", key.ID)
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

func (x *world) backend(t *testing.T, permissions ...apikey.Permission) apikey.Key {
	t.Helper()
	key, _, err := x.manager.Create(t.Context(), apikey.Actor{Name: "test"}, apikey.Request{
		Organization: "org-1", Product: "notifications", Permissions: permissions, Environment: "test",
	})
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestCustomerMintsToken(t *testing.T) {
	x := newWorld(t)
	key := x.backend(t, apikey.MintTokens, "notifications:inbox:read")
	w := x.asKey(t, "/v1/tokens", key, `{"user_id":"ann","owner_id":"team","scopes":["notifications:inbox:read"],"ttl_seconds":60}`)
	var got struct {
		ID, Token string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusCreated || w.Header().Get("Cache-Control") != "no-store" {
		t.Fatalf("answered %d, %v, %v", w.Code, w.Header(), err)
	}
	policy, err := x.tokens.TokenPolicy(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	x.users.Use(policy)
	token, err := x.users.Verify(got.Token)
	if err != nil || token.ID != got.ID || token.Organization != "org-1" || token.User != "ann" || token.Owner != "team" {
		t.Errorf("%+v, %v", token, err)
	}
	if logs := x.logs.String(); strings.Contains(logs, got.Token) || !strings.Contains(logs, `"by":"`+key.ID) {
		t.Error("the log must have the key's id, and not the token")
	}
}

// A token has no more than its key: scopes, their area, or the permission of their action.
func TestCustomerMintsNoMoreThanTheKeyHas(t *testing.T) {
	x := newWorld(t)
	const read, write = "notifications:inbox:read", "notifications:push:write"
	for name, tt := range map[string]struct {
		has    []apikey.Permission
		scopes string
		status int
	}{
		"the scope":             {[]apikey.Permission{read}, read, 201},
		"its area":              {[]apikey.Permission{"notifications:*"}, write, 201},
		"its permission":        {[]apikey.Permission{apikey.Read}, read, 201},
		"the other permission":  {[]apikey.Permission{apikey.Read}, write, 403},
		"another scope":         {[]apikey.Permission{read}, write, 403},
		"nothing but to mint":   {nil, read, 403},
		"one of two":            {[]apikey.Permission{read}, read + `","` + write, 403},
		"not for end users":     {[]apikey.Permission{"notifications:*"}, "notifications:sends:write", 400},
		"to mint":               {[]apikey.Permission{"notifications:*"}, "notifications:tokens:mint", 400},
		"an unknown permission": {[]apikey.Permission{apikey.Read}, "read", 400},
	} {
		w := x.asKey(t, "/v1/tokens", x.backend(t, append(tt.has, apikey.MintTokens)...), `{"user_id":"ann","scopes":["`+tt.scopes+`"],"ttl_seconds":60}`)
		if w.Code != tt.status || w.Code != 201 && !strings.Contains(w.Body.String(), "scopes: ") {
			t.Errorf("%s: %d %s, want %d", name, w.Code, w.Body, tt.status)
		}
	}
}

// A token verifies its user only if an operator has it minted, or a key that may give the scope to decide. Any other key
// that registered a device with the token as the user's would be pushed links that decide.
func TestTokensOfDecidersVerifyTheUser(t *testing.T) {
	x := newWorld(t)
	const body = `{"organization_id":"org-1","user_id":"ann","scopes":["notifications:push:write"],"ttl_seconds":60}`
	byKey := func(permissions ...apikey.Permission) *httptest.ResponseRecorder {
		return x.asKey(t, "/v1/tokens", x.backend(t, append(permissions, apikey.MintTokens, "notifications:push:write")...), body)
	}
	for name, tt := range map[string]struct {
		minted *httptest.ResponseRecorder
		want   bool
	}{
		"an operator":               {x.do(t, http.MethodPost, "/admin/v1/tokens", operatorToken, body), true},
		"an operator for an owner":  {x.do(t, http.MethodPost, "/admin/v1/tokens", operatorToken, strings.Replace(body, "{", `{"owner_id":"ada",`, 1)), false},
		"a key that may give":       {byKey(apikey.DecideOwn), true},
		"a key that mints":          {byKey(), false},
		"a key of all permissions":  {byKey(apikey.Read, apikey.Write, "ai:*", "notifications:*"), false},
		"a key that itself decides": {byKey("ai:approvals:decide"), false},
	} {
		var got struct{ Token string }
		if err := json.Unmarshal(tt.minted.Body.Bytes(), &got); err != nil || tt.minted.Code != http.StatusCreated {
			t.Fatalf("%s: answered %d, %v", name, tt.minted.Code, err)
		}
		policy, err := x.tokens.TokenPolicy(t.Context(), time.Now())
		if err != nil {
			t.Fatal(err)
		}
		x.users.Use(policy)
		if token, err := x.users.Verify(got.Token); err != nil || token.Verified != tt.want {
			t.Errorf("%s: %+v, %v", name, token, err)
		}
	}
}

// No key mints for another organization, and none that is revoked or lacks the scope, also if the role serve relays it.
func TestCustomerMintIsRefused(t *testing.T) {
	x := newWorld(t)
	const body = `{"user_id":"ann","scopes":["notifications:inbox:read"],"ttl_seconds":60}`
	key := x.backend(t, apikey.MintTokens, apikey.Read)
	decider := x.backend(t, apikey.MintTokens, apikey.DecideOwn)
	foreign, revoked := key, x.backend(t, apikey.MintTokens, apikey.Read)
	foreign.Organization = "org-2"
	if err := x.manager.Revoke(t.Context(), apikey.Actor{Name: "test"}, revoked.ID); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		key    apikey.Key
		body   string
		status int
		want   string
	}{
		"another organization's key": {foreign, body, 401, "invalid_key"},
		"a revoked key":              {revoked, body, 401, "invalid_key"},
		"no key":                     {apikey.Key{Organization: "org-1"}, body, 401, "invalid_key"},
		"an unknown key":             {apikey.Key{Organization: "org-1", ID: "key_x"}, body, 401, "invalid_key"},
		"a key without the scope":    {x.backend(t, apikey.Read, apikey.Write, "notifications:*"), body, 403, "notifications:tokens:mint"},
		"another organization":       {key, strings.Replace(body, "{", `{"organization_id":"org-2",`, 1), 403, "organization_id"},
		"an owner's decision":        {decider, `{"user_id":"ann","owner_id":"team","scopes":["ai:decisions:decide"],"ttl_seconds":60}`, 400, "with an owner_id"},
		"no user":                    {key, `{"scopes":["notifications:inbox:read"],"ttl_seconds":60}`, 400, "user_id: "},
		"a long life":                {key, strings.Replace(body, "60", "3601", 1), 400, "ttl_seconds: must be from 1 to 3600"},
		"an unknown field":           {key, `{"colour":"red"}`, 400, "colour: "},
		"a key as user":              {key, strings.Replace(body, "ann", "sk-proj-abcdefghijklmnopqrstuvwxyz0123456789", 1), 400, "user_id: "},
	} {
		w := x.asKey(t, "/v1/tokens", tt.key, tt.body)
		if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.want) || strings.Contains(w.Body.String(), "sk-proj-") {
			t.Errorf("%s: %d %s, want %d %s", name, w.Code, w.Body, tt.status, tt.want)
		}
	}
	if w := x.asKey(t, "/v1/tokens", key, strings.Replace(body, "{", `{"organization_id":"org-1",`, 1)); w.Code != 201 {
		t.Errorf("its own organization: %d %s", w.Code, w.Body)
	}
}

func TestCustomerRevokesTokens(t *testing.T) {
	x := newWorld(t)
	key := x.backend(t, apikey.MintTokens)
	for _, step := range []struct {
		body   string
		status int
	}{
		{`{"user_id":"ann"}`, 204}, {`{"user_id":""}`, 400}, {`{"organization_id":"org-2"}`, 403}, {`{"organization_id":"org-1"}`, 204},
	} {
		if w := x.asKey(t, "/v1/tokens/revoke", key, step.body); w.Code != step.status {
			t.Errorf("%s: %d %s, want %d", step.body, w.Code, w.Body, step.status)
		}
	}
	policy, err := x.tokens.TokenPolicy(t.Context(), time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	for holder := range policy.Revoked {
		if holder.Organization != "org-1" {
			t.Errorf("revoked those of %+v", holder)
		}
	}
	if len(policy.Revoked) != 2 {
		t.Errorf("%d revocations, want 2", len(policy.Revoked))
	}
	audit := x.do(t, http.MethodGet, "/admin/v1/audit?organization_id=org-1", operatorToken, "").Body.String()
	if strings.Count(audit, `"actor":"`+key.ID) != 2 || !strings.Contains(audit, "token.revoke") {
		t.Errorf("the audit must have the key of both revocations: %s", audit)
	}
}
