package api_test

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const configPath = "/v1/byok/config"

// sealed is a credential as a caller seals it, with the key that the gateway gives.
func (b *bench) sealed(tb testing.TB, organization, provider, key string) string {
	tb.Helper()
	var public struct {
		KeyID     string `json:"key_id"`
		PublicKey []byte `json:"public_key"`
		KEM       uint16 `json:"kem_id"`
		KDF       uint16 `json:"kdf_id"`
		AEAD      uint16 `json:"aead_id"`
		Info      string `json:"info_template"`
	}
	a := b.say(tb, http.MethodGet, "/v1/byok/sealing-key", "")
	if err := json.Unmarshal([]byte(a.body), &public); err != nil || public.Info != "switchyard/byok/v1:{organization_id}:{provider}" {
		tb.Fatalf("%s: %v", a.body, err)
	}
	to := sealing.Public{ID: public.KeyID, Key: public.PublicKey, KEM: public.KEM, KDF: public.KDF, AEAD: public.AEAD}
	text, err := to.Seal(organization, provider, secret.New(key))
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf(`{"key_id":%q,"ciphertext":%q}`, public.KeyID, base64.StdEncoding.EncodeToString(text))
}

// follows waits until the replica has a change.
func (b *bench) follows(tb testing.TB, what string, holds func() bool) {
	tb.Helper()
	testkit.Wait(tb, what, func() error {
		if !holds() {
			return errors.New("not followed")
		}
		return nil
	})
}

const (
	ownKey   = "own-key-of-acme-0001"
	otherKey = "own-key-of-acme-0002"
)

func TestByokLifecycle(t *testing.T) {
	b := setup(t)
	put := b.say(t, http.MethodPost, configPath, `{"provider":"PRIME","rotation_interval_days":30,"sealed":`+b.sealed(t, "acme", "first", ownKey)+`}`, "X-User-Id", "ada").gives(t, 201)
	for name, want := range map[string]any{
		"organization_id": "acme", "provider": "first", "status": "active", "custody": "sealed", "masked_hint": "****0001",
		"fingerprint": fingerprint(secret.New(ownKey)), "version": 1.0, "owner_principal": "ada", "last_used_at": nil, "rotated_at": nil,
		"expires_at": nil, "rotation_interval_days": 30.0, "stale": false,
	} {
		if got, there := put[name]; !there || got != want {
			t.Errorf("%s = %v, want %v", name, got, want)
		}
	}
	if got := b.say(t, http.MethodGet, configPath+"/first", "").gives(t, 200); got["fingerprint"] != put["fingerprint"] {
		t.Errorf("read %v", got)
	}
	b.keep(t, "acme", "first.key", otherKey)
	b.say(t, http.MethodPost, configPath, `{"provider":"second","secret_ref":"file:first.key","owner_principal":"bob"}`).gives(t, 201)
	list := b.say(t, http.MethodGet, configPath+"?limit=1", "").gives(t, 200)
	cursor, _ := list["next_cursor"].(string)
	more := b.say(t, http.MethodGet, configPath+"?limit=1&cursor="+url.QueryEscape(cursor), "").gives(t, 200)
	checkByokPages(t, list, more)
	rotated := b.say(t, http.MethodPost, configPath+"/prime/rotate", `{"secret_ref":"file:first.key"}`).gives(t, 200)
	has(t, rotated, map[string]any{"version": 2.0, "custody": "secret_ref", "owner_principal": "ada", "rotation_interval_days": 30.0})
	if rotated["rotated_at"] == nil {
		t.Error("rotated_at is not set")
	}
	if rotated["fingerprint"] == put["fingerprint"] {
		t.Errorf("the fingerprint is still %v", put["fingerprint"])
	}
	moved := b.say(t, http.MethodPost, configPath+"/first/transfer", `{"owner_principal":"carol"}`).gives(t, 200)
	has(t, moved, map[string]any{"owner_principal": "carol", "previous_owner_principal": "ada"})
	if moved["transferred_at"] == nil || moved["rotation_due_at"] == nil {
		t.Errorf("transferred at %v, rotation due at %v, want both", moved["transferred_at"], moved["rotation_due_at"])
	}
	b.say(t, http.MethodPost, configPath+"/first/transfer", `{"owner_principal":"carol"}`).refused(t, 409, "conflict", "owner_principal")
	life := b.say(t, http.MethodGet, configPath+"/first/lifecycle", "").gives(t, 200)
	has(t, life, map[string]any{"stale": false, "version": 2.0})
	if reasons, ok := life["stale_reasons"].([]any); !ok || len(reasons) != 0 {
		t.Errorf("stale_reasons are %v, want an empty list", life["stale_reasons"])
	}
	b.say(t, http.MethodDelete, configPath+"/first", "").gives(t, 204)
	for _, path := range []string{"/first", "/first/lifecycle"} {
		b.say(t, http.MethodGet, configPath+path, "").refused(t, 404, "not_found", "active configuration")
	}
	b.say(t, http.MethodDelete, configPath+"/first", "").refused(t, 404, "not_found", "")
	b.say(t, http.MethodPost, configPath+"/first/rotate", `{"secret_ref":"file:first.key"}`).refused(t, 404, "not_found", "")
	b.say(t, http.MethodPost, configPath+"/first/transfer", `{"owner_principal":"dora"}`).refused(t, 404, "not_found", "")
	again := b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`).gives(t, 200)
	has(t, again, map[string]any{"status": "active", "version": 3.0})
	if owner := again["owner_principal"]; owner != "carol" && owner != "edge" {
		t.Errorf("active again for %v, want carol or edge", owner)
	}
	b.say(t, http.MethodDelete, configPath+"/second", "").gives(t, 204)
	for _, want := range []float64{2, 0} {
		purged := b.say(t, http.MethodPost, "/v1/byok/purge", `{"organization_id":"acme"}`).gives(t, 200)
		if purged["erased"] != want || purged["configs_remaining"] != 0.0 || purged["organization_id"] != "acme" {
			t.Errorf("purged %v, want %v", purged, want)
		}
	}
	b.say(t, http.MethodGet, configPath+"/first", "").refused(t, 404, "not_found", "")
	b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`).gives(t, 201)
	b.byokAudit(t, "byok.put", "byok.put", "byok.rotate", "byok.transfer", "byok.deactivate", "byok.put", "byok.deactivate", "byok.purge", "byok.purge", "byok.put")
}

// checkByokPages checks two pages of one configuration each.
func checkByokPages(tb testing.TB, first, second map[string]any) {
	tb.Helper()
	for what, page := range map[string]map[string]any{"the first page": first, "the second": second} {
		if n := len(page["configs"].([]any)); n != 1 {
			tb.Errorf("%s has %d configurations, want 1", what, n)
		}
		if strings.Contains(fmt.Sprint(page), "own-key") {
			tb.Errorf("%s holds the credential: %v", what, page)
		}
	}
	if cursor, _ := first["next_cursor"].(string); cursor == "" {
		tb.Error("the first page has no cursor")
	}
	has(tb, second, map[string]any{"next_cursor": ""})
}

// byokAudit compares the audit of credentials, oldest first.
func (b *bench) byokAudit(tb testing.TB, want ...string) {
	tb.Helper()
	entries, err := b.control.List(tb.Context(), audit.Filter{Action: "byok.", Limit: 100})
	if err != nil {
		tb.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(entries) {
		got = append(got, e.Action)
		if e.Organization != "acme" || e.Actor == "" || e.RequestID != "req-test" {
			tb.Errorf("%s: by %q for %q in %q, want an actor, acme and req-test", e.Action, e.Actor, e.Organization, e.RequestID)
		}
		if strings.Contains(string(e.Details), "own-key") {
			tb.Errorf("%s: the details hold the credential: %s", e.Action, e.Details)
		}
	}
	if !slices.Equal(got, want) {
		tb.Errorf("audit %v, want %v", got, want)
	}
}

func TestByokRefusals(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "first.key", ownKey)
	b.keep(t, "bolt", "first.key", otherKey)
	b.keep(t, "acme", "words", "not a key at all")
	mine := b.sealed(t, "acme", "first", ownKey)
	stolen := b.sealed(t, "bolt", "first", otherKey)
	raw := "sk-proj-0123456789abcdefghijABCDEFGHIJ"
	random := "9fK2mQ7xW1pR8tY4uB6nC3vA5sD0gH2jL9"
	const bad, refusedKey = "invalid_request", "raw_key_refused"
	for name, test := range map[string]struct {
		path, body, reason, text string
	}{
		"no credential":                   {"", `{"provider":"first"}`, bad, "secret_ref"},
		"two credentials":                 {"", `{"provider":"first","secret_ref":"file:first.key","sealed":` + mine + `}`, bad, "exactly one"},
		"no provider":                     {"", `{"secret_ref":"file:first.key"}`, bad, "provider"},
		"an unknown provider":             {"", `{"provider":"nobody","secret_ref":"file:first.key"}`, "provider_unknown", "provider"},
		"an absent secret":                {"", `{"provider":"first","secret_ref":"file:absent"}`, "secret_unresolved", "no such secret"},
		"another's secret":                {"", `{"provider":"first","secret_ref":"file:../bolt/first.key"}`, "secret_unresolved", "secret_ref: want file:"},
		"a scheme that is off":            {"", `{"provider":"first","secret_ref":"awssecretsmanager://byok/acme/first"}`, "secret_unresolved", "switched off"},
		"no reference":                    {"", `{"provider":"first","secret_ref":"plain"}`, bad, "secret_ref"},
		"a secret that is no key":         {"", `{"provider":"first","secret_ref":"file:words"}`, bad, "credential"},
		"sealed for another organization": {"", `{"provider":"first","sealed":` + stolen + `}`, "sealed_credential_invalid", "sealed"},
		"sealed for another provider":     {"", `{"provider":"second","sealed":` + mine + `}`, "sealed_credential_invalid", "sealed"},
		"an unknown sealing key":          {"", `{"provider":"first","sealed":{"key_id":"0000","ciphertext":"AAAA"}}`, "sealed_credential_invalid", "key_id"},
		"no ciphertext":                   {"", `{"provider":"first","sealed":{"key_id":"0000"}}`, bad, "ciphertext"},
		"an expiry in the past":           {"", `{"provider":"first","secret_ref":"file:first.key","expires_at":"2020-01-01T00:00:00Z"}`, bad, "expires_at"},
		"a rotation every zero days":      {"", `{"provider":"first","secret_ref":"file:first.key","rotation_interval_days":0}`, bad, "rotation_interval_days"},
		"an unknown field":                {"", `{"provider":"first","colour":"red"}`, bad, "colour"},
		"a key in a field of its own":     {"", `{"provider":"first","api_key":"` + raw + `"}`, refusedKey, "api_key"},
		"a key as the reference":          {"", `{"provider":"first","secret_ref":"` + raw + `"}`, refusedKey, "secret_ref"},
		"a key within a reference":        {"", `{"provider":"first","secret_ref":"file:` + raw + `"}`, refusedKey, "secret_ref"},
		"a key as the provider":           {"", `{"provider":"` + raw + `"}`, refusedKey, "provider"},
		"a key as the owner":              {"", `{"provider":"first","secret_ref":"file:first.key","owner_principal":"` + random + `"}`, refusedKey, "owner_principal"},
		"a key as a name":                 {"", `{"provider":"first","` + raw + `":1}`, refusedKey, "body"},
		"a key within a list":             {"", `{"provider":"first","keys":[{"value":"` + raw + `"}]}`, refusedKey, "value"},
		"a key to rotate to":              {"/first/rotate", `{"api_key":"` + raw + `"}`, refusedKey, "api_key"},
		"a key as the new owner":          {"/first/transfer", `{"owner_principal":"` + raw + `"}`, refusedKey, "owner_principal"},
		"nobody as the new owner":         {"/first/transfer", `{}`, bad, "owner_principal"},
	} {
		t.Run(name, func(t *testing.T) {
			a := b.say(t, http.MethodPost, configPath+test.path, test.body)
			a.refused(t, 400, test.reason, test.text)
			if strings.Contains(a.body, raw) || strings.Contains(a.body, random) {
				t.Errorf("the answer repeats the key: %s", a.body)
			}
		})
	}
	if log := b.log.String(); strings.Contains(log, raw) || strings.Contains(log, random) {
		t.Error("a raw key is in the log")
	}
	if got := b.say(t, http.MethodGet, configPath, "").gives(t, 200); len(got["configs"].([]any)) != 0 {
		t.Errorf("a refusal left %v", got)
	}
	b.say(t, http.MethodGet, configPath+"?cursor=abc", "").refused(t, 400, bad, "cursor")
	b.say(t, http.MethodGet, configPath+"?limit=201", "").refused(t, 400, bad, "limit")
}

func TestByokRoles(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "first.key", ownKey)
	b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`).gives(t, 201)
	for _, path := range []string{configPath + "/first", configPath + "/first/lifecycle"} {
		b.say(t, http.MethodGet, path, "", "X-Organization-Id", "bolt").refused(t, 404, "not_found", "")
		b.say(t, http.MethodGet, path+"?organization_id=bolt", "").refused(t, 403, "organization_mismatch", "")
	}
	b.say(t, http.MethodDelete, configPath+"/first", "", "X-Organization-Id", "bolt").refused(t, 404, "not_found", "")
	b.say(t, http.MethodPost, configPath+"/first/rotate", `{"secret_ref":"file:first.key"}`, "X-Organization-Id", "bolt").refused(t, 404, "not_found", "")
	if purged := b.say(t, http.MethodPost, "/v1/byok/purge", `{}`, "X-Organization-Id", "bolt").gives(t, 200); purged["erased"] != 0.0 {
		t.Errorf("a stranger's purge: %v", purged)
	}
	b.say(t, http.MethodPost, "/v1/byok/purge", `{"organization_id":"bolt"}`).refused(t, 403, "organization_mismatch", "")
	b.say(t, http.MethodPost, "/v1/byok/purge", `{}`, "X-Organization-Id", "").refused(t, 400, "invalid_request", "organization_id")
	for _, op := range []struct{ method, path string }{
		{"GET", configPath},
		{"POST", configPath},
		{"GET", configPath + "/first"},
		{"DELETE", configPath + "/first"},
		{"GET", "/v1/byok/sealing-key"},
		{"POST", configPath + "/first/rotate"},
		{"GET", configPath + "/first/lifecycle"},
		{"POST", configPath + "/first/transfer"},
		{"POST", "/v1/byok/purge"},
	} {
		b.say(t, op.method, op.path, `{}`, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "role")
		b.say(t, op.method, op.path, `{}`, "Authorization", "").refused(t, 401, "unauthenticated", "")
	}
	b.say(t, http.MethodGet, "/v1/byok/stale", "").refused(t, 403, "forbidden", "operator")
	b.say(t, http.MethodGet, configPath+"/first", "").gives(t, 200)
}

func TestByokStale(t *testing.T) {
	b := setup(t)
	for _, organization := range []string{"acme", "bolt", "carol"} {
		b.keep(t, organization, "first.key", ownKey)
		for _, provider := range []string{"first", "second"} {
			b.say(t, http.MethodPost, configPath, `{"provider":"`+provider+`","secret_ref":"file:first.key"}`, "X-Organization-Id", organization).gives(t, 201)
		}
	}
	operator := []string{"Authorization", "Bearer ops", "X-Organization-Id", ""}
	if got := b.say(t, http.MethodGet, "/v1/byok/stale", "", operator...).gives(t, 200); len(got["configs"].([]any)) != 0 {
		t.Errorf("fresh ones are stale: %v", got)
	}
	testkit.Exec(t, b.pool, `UPDATE byok_config SET created_at = created_at - interval '91 days' WHERE organization_id <> 'bolt' OR provider = 'first'`)
	var seen []string
	cursor := ""
	for {
		page := b.say(t, http.MethodGet, "/v1/byok/stale?limit=2&cursor="+url.QueryEscape(cursor), "", operator...).gives(t, 200)
		for _, item := range page["configs"].([]any) {
			config := item.(map[string]any)
			seen = append(seen, fmt.Sprint(config["organization_id"], "/", config["provider"], config["stale_reasons"]))
		}
		if cursor, _ = page["next_cursor"].(string); cursor == "" {
			break
		}
	}
	want := []string{"acme/first[unused]", "acme/second[unused]", "bolt/first[unused]", "carol/first[unused]", "carol/second[unused]"}
	if !slices.Equal(seen, want) {
		t.Errorf("stale %v, want %v", seen, want)
	}
	for query, want := range map[string]int{"organization_id=bolt": 1, "provider=PRIME": 3, "organization_id=nobody": 0} {
		if got := b.say(t, http.MethodGet, "/v1/byok/stale?"+query, "", operator...).gives(t, 200); len(got["configs"].([]any)) != want {
			t.Errorf("%s: %v, want %d", query, got, want)
		}
	}
}
