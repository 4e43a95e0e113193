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
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/custody/sealing"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const configPath = "/v1/byok/config"

// gives returns the answer as a JSON object.
func (a answer) gives(tb testing.TB, want int) map[string]any {
	tb.Helper()
	fields := map[string]any{}
	if a.status != want || want != http.StatusNoContent && json.Unmarshal([]byte(a.body), &fields) != nil {
		tb.Fatalf("%d %s, want %d", a.status, a.body, want)
	}
	return fields
}

// sealed returns a credential as a caller seals it, with the gateway's sealing key.
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
	testkit.Wait(tb, time.Second, what, func() error {
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
	if len(list["configs"].([]any)) != 1 || cursor == "" || len(more["configs"].([]any)) != 1 || more["next_cursor"] != "" || strings.Contains(fmt.Sprint(list, more), "own-key") {
		t.Errorf("pages %v, %v", list, more)
	}
	rotated := b.say(t, http.MethodPost, configPath+"/prime/rotate", `{"secret_ref":"file:first.key"}`).gives(t, 200)
	if rotated["version"] != 2.0 || rotated["rotated_at"] == nil || rotated["custody"] != "secret_ref" || rotated["owner_principal"] != "ada" || rotated["rotation_interval_days"] != 30.0 || rotated["fingerprint"] == put["fingerprint"] {
		t.Errorf("rotated %v", rotated)
	}
	moved := b.say(t, http.MethodPost, configPath+"/first/transfer", `{"owner_principal":"carol"}`).gives(t, 200)
	if moved["owner_principal"] != "carol" || moved["previous_owner_principal"] != "ada" || moved["transferred_at"] == nil || moved["rotation_due_at"] == nil {
		t.Errorf("moved %v", moved)
	}
	b.say(t, http.MethodPost, configPath+"/first/transfer", `{"owner_principal":"carol"}`).refused(t, 409, "conflict", "owner_principal")
	life := b.say(t, http.MethodGet, configPath+"/first/lifecycle", "").gives(t, 200)
	if reasons, ok := life["stale_reasons"].([]any); life["stale"] != false || !ok || len(reasons) != 0 || life["version"] != 2.0 {
		t.Errorf("lifecycle %v", life)
	}
	b.say(t, http.MethodDelete, configPath+"/first", "").gives(t, 204)
	for _, path := range []string{"/first", "/first/lifecycle"} {
		b.say(t, http.MethodGet, configPath+path, "").refused(t, 404, "not_found", "active configuration")
	}
	b.say(t, http.MethodDelete, configPath+"/first", "").refused(t, 404, "not_found", "")
	b.say(t, http.MethodPost, configPath+"/first/rotate", `{"secret_ref":"file:first.key"}`).refused(t, 404, "not_found", "")
	b.say(t, http.MethodPost, configPath+"/first/transfer", `{"owner_principal":"dora"}`).refused(t, 404, "not_found", "")
	again := b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`).gives(t, 200)
	if again["status"] != "active" || again["version"] != 3.0 || again["owner_principal"] != "carol" && again["owner_principal"] != "edge" {
		t.Errorf("active again %v", again)
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

// byokAudit compares the audit entries of credentials, oldest first.
func (b *bench) byokAudit(tb testing.TB, want ...string) {
	tb.Helper()
	entries, err := b.control.List(tb.Context(), audit.Filter{Action: "byok.", Limit: 100})
	if err != nil {
		tb.Fatal(err)
	}
	var got []string
	for _, e := range slices.Backward(entries) {
		got = append(got, e.Action)
		if e.Organization != "acme" || e.Actor == "" || e.RequestID != "req-test" || strings.Contains(string(e.Details), "own-key") {
			tb.Errorf("entry %+v", e)
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
	if _, err := b.pool.Exec(t.Context(), `UPDATE byok_config SET created_at = created_at - interval '91 days' WHERE organization_id <> 'bolt' OR provider = 'first'`); err != nil {
		t.Fatal(err)
	}
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

// The same on the other face.
func TestByokGRPC(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "first.key", ownKey)
	client := gatewayv1.NewByokServiceClient(b.conn)
	ctx := metadata.NewOutgoingContext(t.Context(), metadata.Pairs("authorization", "Bearer svc", "x-organization-id", "acme", "x-request-id", "req-test"))
	put, err := client.PutByokConfig(ctx, &gatewayv1.PutByokConfigRequest{Provider: "first", SecretRef: "file:first.key"})
	if err != nil || put.GetVersion() != 1 || put.GetMaskedHint() != "****0001" {
		t.Fatalf("%v, %v", put, err)
	}
	raw := "sk-proj-0123456789abcdefghijABCDEFGHIJ"
	for name, m := range map[string]*gatewayv1.PutByokConfigRequest{
		"as the reference": {Provider: "first", SecretRef: raw}, "as the owner": {Provider: "first", OwnerPrincipal: raw}, "as the provider": {Provider: raw},
	} {
		_, err := client.PutByokConfig(ctx, m)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), "raw key") || strings.Contains(err.Error(), raw) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := client.GetByokConfig(ctx, &gatewayv1.GetByokConfigRequest{Provider: "second"}); status.Code(err) != codes.NotFound {
		t.Errorf("absent: %v", err)
	}
	if _, err := client.ListStaleByokConfigs(ctx, &gatewayv1.ListStaleByokConfigsRequest{}); status.Code(err) != codes.PermissionDenied {
		t.Errorf("stale for a service: %v", err)
	}
	if purged, err := client.PurgeByok(ctx, &gatewayv1.PurgeByokRequest{}); err != nil || purged.GetErased() != 1 {
		t.Errorf("%v, %v", purged, err)
	}
	if strings.Contains(b.log.String(), raw) {
		t.Error("a raw key is in the log")
	}
}

// Concurrent rotations and purges leave one consistent state.
func TestByokConcurrently(t *testing.T) {
	b := setup(t)
	b.keep(t, "acme", "first.key", ownKey)
	b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`).gives(t, 201)
	var group sync.WaitGroup
	for range 16 {
		group.Go(func() {
			if a := b.say(t, http.MethodPost, configPath+"/first/rotate", `{"secret_ref":"file:first.key"}`); a.status != 200 {
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	if got := b.say(t, http.MethodGet, configPath+"/first", "").gives(t, 200); got["version"] != 17.0 {
		t.Errorf("version %v after 16 rotations", got["version"])
	}
	var erased, created float64
	var mu sync.Mutex
	for i := range 20 {
		group.Go(func() {
			if i%2 == 0 {
				a := b.say(t, http.MethodPost, configPath, `{"provider":"first","secret_ref":"file:first.key"}`)
				mu.Lock()
				defer mu.Unlock()
				if a.status == 201 {
					created++
				}
				return
			}
			a := b.say(t, http.MethodPost, "/v1/byok/purge", `{}`).gives(t, 200)
			mu.Lock()
			defer mu.Unlock()
			erased += a["erased"].(float64)
		})
	}
	group.Wait()
	last := b.say(t, http.MethodPost, "/v1/byok/purge", `{}`).gives(t, 200)
	if erased += last["erased"].(float64); erased != created+1 || last["configs_remaining"] != 0.0 {
		t.Errorf("%v erased of %v created and the one before", erased, created)
	}
}
