package control_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/apikey"
)

const aToken = `{"organization_id":"org-1","user_id":"ann","scopes":["notifications:inbox:read"],"ttl_seconds":60}`

func TestMintToken(t *testing.T) {
	x := newWorld(t)
	w := x.do(t, http.MethodPost, "/admin/v1/tokens", operatorToken, aToken)
	var got struct {
		ID, Token string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != http.StatusCreated {
		t.Fatalf("answered %d, %v", w.Code, err)
	}
	policy, err := x.tokens.TokenPolicy(t.Context(), time.Now())
	if err != nil {
		t.Fatal(err)
	}
	x.users.Use(policy)
	token, err := x.users.Verify(got.Token)
	if err != nil || token.ID != got.ID || token.User != "ann" || !token.Expires.Equal(got.ExpiresAt) {
		t.Errorf("%+v, %v", token, err)
	}
	if logs := x.logs.String(); strings.Contains(logs, got.Token) || !strings.Contains(logs, got.ID) {
		t.Error("the log must have the token's id, not the token")
	}
}

func TestTokenRequestsAreRefused(t *testing.T) {
	x := newWorld(t)
	for name, tt := range map[string]struct{ method, path, body, want string }{
		"scope": {"POST", "/admin/v1/tokens", strings.Replace(aToken, "inbox:read", "sends:write", 1), "scopes: must hold"},
		"an owner decides": {
			"POST", "/admin/v1/tokens", strings.Replace(aToken, `["notifications:inbox:read"]`, `["ai:decisions:decide"],"owner_id":"team"`, 1),
			"scopes: must not hold ai:decisions:decide with an owner_id",
		},
		"long life":           {"POST", "/admin/v1/tokens", strings.Replace(aToken, "60", "3601", 1), "ttl_seconds: must be from 1 to 3600"},
		"overflow":            {"POST", "/admin/v1/tokens", strings.Replace(aToken, "60", "9223372036854775807", 1), "ttl_seconds"},
		"no life":             {"POST", "/admin/v1/tokens", strings.Replace(aToken, `,"ttl_seconds":60`, "", 1), "ttl_seconds"},
		"unknown field":       {"POST", "/admin/v1/tokens", `{"colour":"red"}`, "colour"},
		"revoke of none":      {"POST", "/admin/v1/tokens/revoke", `{}`, "organization_id"},
		"revoke of no user":   {"POST", "/admin/v1/tokens/revoke", `{"organization_id":"org-1","user_id":""}`, "user_id"},
		"rotate with a field": {"POST", "/admin/v1/tokens/keys/rotate", `{"now":true}`, "now"},
		"no origins":          {"PUT", "/admin/v1/organizations/org-1/origins", `{"origins":[]}`, "origins"},
		"any origin":          {"PUT", "/admin/v1/organizations/org-1/origins", `{"origins":["*"]}`, "origins[0]"},
		"plain http":          {"PUT", "/admin/v1/organizations/org-1/origins", `{"origins":["https://a.example","http://a.example"]}`, "origins[1]"},
		"too many origins": {
			"PUT", "/admin/v1/organizations/org-1/origins", `{"origins":["https://a"` + strings.Repeat(`,"https://a"`, 50) + `]}`, "origins: must hold at most 50",
		},
	} {
		if w := x.do(t, tt.method, tt.path, operatorToken, tt.body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), tt.want) {
			t.Errorf("%s: answered %d, %s; want 400 with %q", name, w.Code, w.Body, tt.want)
		}
	}
}

func TestOriginsOfOrganization(t *testing.T) {
	x := newWorld(t)
	const path, body = "/admin/v1/organizations/org-1/origins", `{"origins":["https://app.example.com","http://localhost:3000"]}`
	for _, step := range []struct {
		method, body string
		status       int
		want         string
	}{
		{http.MethodGet, "", http.StatusNotFound, ""},
		{http.MethodPut, body, http.StatusOK, "http://localhost:3000"},
		{http.MethodGet, "", http.StatusOK, "https://app.example.com"},
		{http.MethodDelete, "", http.StatusNoContent, ""},
		{http.MethodGet, "", http.StatusNotFound, ""},
	} {
		if w := x.do(t, step.method, path, operatorToken, step.body); w.Code != step.status || !strings.Contains(w.Body.String(), step.want) {
			t.Errorf("%s: answered %d: %s", step.method, w.Code, w.Body)
		}
	}
}

// Each token has an entry in the audit, which names it and what it may do, and is not the token; that of a customer's
// backend is found by the key.
func TestMintedTokensAreAudited(t *testing.T) {
	x := newWorld(t)
	key := x.backend(t, apikey.MintTokens, "notifications:inbox:read")
	const body = `{"organization_id":"org-1","user_id":"ann","owner_id":"team","scopes":["notifications:inbox:read"],"origins":["https://a.example"],"ttl_seconds":60}`
	for name, tt := range map[string]struct {
		mint  func() *httptest.ResponseRecorder
		actor string
		query string
	}{
		"an operator": {func() *httptest.ResponseRecorder {
			return x.do(t, http.MethodPost, "/admin/v1/tokens", operatorToken, body)
		}, "operator", "organization_id=org-1"},
		"a backend": {func() *httptest.ResponseRecorder { return x.asKey(t, "/v1/tokens", key, body) }, key.ID, "key_id=" + key.ID},
	} {
		w := tt.mint()
		var made struct{ ID, Token string }
		if err := json.Unmarshal(w.Body.Bytes(), &made); err != nil || w.Code != http.StatusCreated {
			t.Fatalf("%s: %d, %v", name, w.Code, err)
		}
		text := x.do(t, http.MethodGet, "/admin/v1/audit?limit=1&"+tt.query, operatorToken, "").Body.String()
		var audit struct {
			Entries []struct {
				Actor, Action string
				Organization  string `json:"organization_id"`
				Details       map[string]any
			}
		}
		if err := json.Unmarshal([]byte(text), &audit); err != nil || len(audit.Entries) != 1 || strings.Contains(text, made.Token) {
			t.Fatalf("%s: the audit is %s, %v", name, text, err)
		}
		e := audit.Entries[0]
		signingKey, _ := e.Details["signing_key"].(string)
		want := map[string]any{
			"token": made.ID, "user_id": "ann", "owner_id": "team", "scopes": []any{"notifications:inbox:read"}, "origins": []any{"https://a.example"},
			"ttl_seconds": 60.0, "signing_key": signingKey,
		}
		if diff := cmp.Diff(want, e.Details); diff != "" || !strings.HasPrefix(signingKey, "sig_") ||
			e.Actor != tt.actor || e.Action != "token.mint" || e.Organization != "org-1" {
			t.Errorf("%s: %+v (-want +got):\n%s", name, e, diff)
		}
	}
}

// Revocations, rotations and origins are in the audit, and the policy has them.
func TestChangesOfTokensAreAudited(t *testing.T) {
	x := newWorld(t)
	before, err := x.tokens.TokenPosition(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for path, body := range map[string]string{
		"/admin/v1/tokens/revoke":      `{"organization_id":"org-1","user_id":"ann"}`,
		"/admin/v1/tokens/keys/rotate": ``,
	} {
		if w := x.do(t, http.MethodPost, path, operatorToken, body); w.Code/100 != 2 {
			t.Fatalf("%s: answered %d: %s", path, w.Code, w.Body)
		}
	}
	x.do(t, http.MethodPut, "/admin/v1/organizations/org-1/origins", operatorToken, `{"origins":["https://a.example"]}`)
	x.do(t, http.MethodPut, "/admin/v1/organizations/org-1/rate-limit", operatorToken, `{"requests":7,"window_seconds":60}`)
	policy, err := x.tokens.TokenPolicy(t.Context(), time.Now().Add(-time.Minute))
	if err != nil {
		t.Fatal(err)
	}
	if len(policy.Revoked) != 1 || len(policy.Keys) != 2 || len(policy.Origins) != 1 || policy.Limits["org-1"].Requests != 7 || policy.Position != before+4 {
		t.Errorf("%+v, position %d before", policy, before)
	}
	audit := x.do(t, http.MethodGet, "/admin/v1/audit", operatorToken, "").Body.String()
	for _, action := range []string{"token.revoke", "token.rotate_keys", "organization.origins"} {
		if !strings.Contains(audit, action) {
			t.Errorf("%s is not in the audit", action)
		}
	}
}
