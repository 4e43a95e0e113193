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
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/platform/testkit"
)

// admin makes an operator's call and reads its answer.
func (x *world) admin(t *testing.T, method, path, body string, status int, into any) {
	t.Helper()
	w := x.do(t, method, path, operatorToken, body)
	if w.Code != status {
		t.Fatalf("%s %s: %d %s, want %d", method, path, w.Code, w.Body, status)
	}
	if into != nil {
		if err := json.Unmarshal(w.Body.Bytes(), into); err != nil {
			t.Fatal(err)
		}
	}
}

func (x *world) chat(t *testing.T, key string) *httptest.ResponseRecorder {
	t.Helper()
	return x.do(t, http.MethodPost, "/product/v1/ai/chat", key, "{}")
}

func TestRotation(t *testing.T) {
	x := newWorld(t)
	var first, second, third, read control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"org-9","product":"ai","permissions":["read"],"name":"n","environment":"test",
		"rate_limit":{"requests":5,"window_seconds":3600}}`, 201, &first)
	x.admin(t, "POST", "/admin/v1/keys/"+first.ID+"/rotate", `{"overlap_seconds":3600}`, 201, &second)
	want := second
	want.Origin, want.Organization, want.Product, want.Name = first.ID, "org-9", "ai", "n"
	want.ExpiresAt, want.RateLimit = nil, &control.RateLimit{Requests: 5, WindowSeconds: 3600, Burst: 5}
	if diff := cmp.Diff(want, second); diff != "" {
		t.Errorf("successor (-want +got):\n%s", diff)
	}
	if second.Key == first.Key || !strings.HasPrefix(second.Key, "swy_test_") {
		t.Errorf("the successor's key is %s after %s, want a new one that begins with swy_test_", second.Key, first.Key)
	}
	x.admin(t, "GET", "/admin/v1/keys/"+first.ID, "", 200, &read)
	if read.ReplacedBy != second.ID || read.Key != "" {
		t.Errorf("the old one: replaced by %q, key %q, want %s and none", read.ReplacedBy, read.Key, second.ID)
	}
	if left := time.Until(*read.ExpiresAt); left < 59*time.Minute || left > time.Hour {
		t.Errorf("the old one expires in %s, want an hour", left)
	}
	// Both are good, and a rotation doesn't double the limit.
	for i, key := range []string{first.Key, second.Key, first.Key, second.Key, second.Key, first.Key} {
		want := 200
		if i == 5 {
			want = 429
		}
		if w := x.chat(t, key); w.Code != want {
			t.Errorf("call %d: %d %s", i, w.Code, w.Body)
		}
	}
	// Once only, and with no overlap the old one ends.
	x.admin(t, "POST", "/admin/v1/keys/"+first.ID+"/rotate", "", 409, nil)
	x.admin(t, "POST", "/admin/v1/keys/"+second.ID+"/rotate", `{"overlap_seconds":0,"expires_at":"2100-01-01T00:00:00Z"}`, 201, &third)
	x.admin(t, "GET", "/admin/v1/keys/"+second.ID, "", 200, &read)
	if read.RevokedAt == nil || third.Origin != first.ID || third.ExpiresAt == nil {
		t.Errorf("rotated without overlap: %+v, %+v", read, third)
	}
	x.admin(t, "POST", "/admin/v1/keys/"+read.ID+"/rotate", "", 409, nil)
	x.admin(t, "POST", "/admin/v1/keys/"+third.ID+"/rotate", `{"overlap_seconds":-1}`, 400, nil)
	x.admin(t, "POST", "/admin/v1/keys/"+third.ID+"/rotate", `{"overlap_seconds":99999999}`, 400, nil)
	x.admin(t, "POST", "/admin/v1/keys/key_none/rotate", "", 404, nil)
	for _, key := range []string{first.Key, second.Key, third.Key} {
		testkit.NoLeak(t, key, x.logs.String(), x.do(t, "GET", "/admin/v1/audit", operatorToken, "").Body.String())
	}
}

// A key with an end is replaced by one of the same length of life.
func TestRotationKeepsTheLifetime(t *testing.T) {
	x := newWorld(t)
	var first, second control.Key
	end := time.Now().Add(100 * time.Hour).UTC().Format(time.RFC3339)
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"],"expires_at":"`+end+`"}`, 201, &first)
	x.admin(t, "POST", "/admin/v1/keys/"+first.ID+"/rotate", "", 201, &second)
	if got := second.ExpiresAt.Sub(second.CreatedAt); got != first.ExpiresAt.Sub(first.CreatedAt) {
		t.Errorf("the new one lives %v", got)
	}
}

func TestUpdate(t *testing.T) {
	x := newWorld(t)
	var key control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"o","product":"ai","permissions":["read"]}`, 201, &key)
	text, path := key.Key, "/admin/v1/keys/"+key.ID
	x.admin(t, "PATCH", path, `{"expires_at":"2100-01-01T00:00:00Z","rate_limit":{"requests":1,"window_seconds":60,"burst":1},"name":"new"}`, 200, &key)
	if key.ExpiresAt == nil || key.RateLimit == nil || key.Name != "new" {
		t.Errorf("updated: %+v", key)
	}
	x.admin(t, "PATCH", path, `{"name":"newer"}`, 200, &key)
	if key.ExpiresAt == nil || key.RateLimit == nil || key.Name != "newer" {
		t.Errorf("what wasn't named changed: %+v", key)
	}
	x.admin(t, "PATCH", path, `{"expires_at":null,"rate_limit":null}`, 200, &key)
	if key.ExpiresAt != nil || key.RateLimit != nil {
		t.Errorf("null left it: %+v", key)
	}
	for body, status := range map[string]int{
		`{}`: 400, `{"expires_at":"2000-01-01T00:00:00Z"}`: 400, `{"rate_limit":{}}`: 400, `{"rate_limit":{"requests":5}}`: 400,
		`{"rate_limit":{"requests":5,"window_seconds":99999999999}}`: 400, `{"rate_limit":{"requests":5,"window_seconds":60,"burst":-1}}`: 400,
		`{"product":"ai"}`: 400, `{"name":"\u0000"}`: 400,
	} {
		x.admin(t, "PATCH", path, body, status, nil)
	}
	if w := x.chat(t, text); w.Code != 200 {
		t.Errorf("the key itself changed: %d", w.Code)
	}
	x.admin(t, "DELETE", path, "", 204, nil)
	x.admin(t, "PATCH", path, `{"expires_at":null}`, 409, nil)
	x.admin(t, "PATCH", "/admin/v1/keys/key_none", `{"name":"x"}`, 404, nil)
	x.admin(t, "GET", "/admin/v1/keys/key_none", "", 404, nil)
}

func TestAudit(t *testing.T) {
	x := newWorld(t)
	var key control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"org-7","product":"ai","permissions":["read"]}`, 201, &key)
	x.key(t, "ai", apikey.Read) // another organization's
	x.admin(t, "PATCH", "/admin/v1/keys/"+key.ID, `{"name":"n"}`, 200, nil)
	x.admin(t, "PATCH", "/admin/v1/keys/"+key.ID, `{"rate_limit":{}}`, 400, nil) // leaves nothing
	x.admin(t, "PUT", "/admin/v1/organizations/org-7/rate-limit", `{"requests":60,"window_seconds":60}`, 200, nil)
	x.admin(t, "DELETE", "/admin/v1/organizations/org-7/rate-limit", "", 204, nil)
	for range 2 { // the second changes nothing
		x.admin(t, "DELETE", "/admin/v1/keys/"+key.ID, "", 204, nil)
	}
	var actions []string
	for cursor := ""; ; {
		var page struct {
			Entries []struct {
				Actor, Action  string
				OrganizationID string `json:"organization_id"`
				RequestID      string `json:"request_id"`
			}
			NextCursor string `json:"next_cursor"`
		}
		x.admin(t, "GET", "/admin/v1/audit?organization_id=org-7&limit=2&cursor="+cursor, "", 200, &page)
		for _, e := range page.Entries {
			if e.Actor != "operator" || e.OrganizationID != "org-7" || e.RequestID != "req_1" {
				t.Errorf("entry %+v", e)
			}
			actions = append(actions, e.Action)
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	want := "key.revoke organization.remove_limit organization.limit key.update key.create"
	if got := strings.Join(actions, " "); got != want {
		t.Errorf("actions %s, want %s", got, want)
	}
}

func TestRateLimits(t *testing.T) {
	x := newWorld(t)
	var bounded, free control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"org-5","product":"ai","permissions":["read"],"rate_limit":{"requests":2,"window_seconds":3600}}`, 201, &bounded)
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"org-5","product":"ai","permissions":["read"]}`, 201, &free)
	if w := x.chat(t, free.Key); w.Code != 200 || w.Header().Get("RateLimit") != "" || w.Header().Get("RateLimit-Policy") != "" {
		t.Errorf("nothing bounds it: %d %v", w.Code, w.Header())
	}
	for _, want := range []string{`"key";r=1;t=1800`, `"key";r=0;t=3600`} {
		w := x.chat(t, bounded.Key)
		if w.Code != 200 || w.Header().Get("RateLimit") != want || w.Header().Get("RateLimit-Policy") != `"key";q=2;w=3600` {
			t.Errorf("%d, RateLimit %s, RateLimit-Policy %s; want %s", w.Code, w.Header().Get("RateLimit"), w.Header().Get("RateLimit-Policy"), want)
		}
	}
	calls := len(x.calls)
	w := x.chat(t, bounded.Key)
	if w.Code != 429 {
		t.Errorf("refused: %d, want 429", w.Code)
	}
	for header, want := range map[string]string{"Retry-After": "1800", "RateLimit": `"key";r=0;t=3600`} {
		if got := w.Header().Get(header); got != want {
			t.Errorf("refused: %s %s, want %s", header, got, want)
		}
	}
	const refusal = `"error":"rate_limited","error_class":"rate_limit","retryable":true,"retry_after":1800`
	if !strings.Contains(w.Body.String(), refusal) {
		t.Errorf("refused: %s does not contain %s", w.Body, refusal)
	}
	if len(x.calls) != calls {
		t.Error("refused, and the gateway was called")
	}
	// In the words of those who ask otherwise.
	if w := x.do(t, "POST", "/product/v1/ai/anthropic/v1/messages", bounded.Key, "{}"); w.Code != 429 || !strings.Contains(w.Body.String(), `"type":"rate_limit_error"`) {
		t.Errorf("anthropic: %d %s", w.Code, w.Body)
	}
	x.admin(t, "GET", "/admin/v1/organizations/org-5/rate-limit", "", 404, nil)
	x.admin(t, "PUT", "/admin/v1/organizations/org-5/rate-limit", `{"requests":100,"window_seconds":60,"burst":10}`, 200, nil)
	x.admin(t, "PUT", "/admin/v1/organizations/org-5/rate-limit", `{"requests":0,"window_seconds":60}`, 400, nil)
	x.admin(t, "PUT", "/admin/v1/organizations/org-5/rate-limit", `{}`, 400, nil)
	var set struct {
		RateLimit control.RateLimit `json:"rate_limit"`
	}
	x.admin(t, "GET", "/admin/v1/organizations/org-5/rate-limit", "", 200, &set)
	if set.RateLimit != (control.RateLimit{Requests: 100, WindowSeconds: 60, Burst: 10}) {
		t.Errorf("set to %+v", set)
	}
	// The limit of an organization also applies to a key that is not cached yet.
	var fresh control.Key
	x.admin(t, "POST", "/admin/v1/keys", `{"organization_id":"org-5","product":"ai","permissions":["read"],"rate_limit":{"requests":5,"window_seconds":60}}`, 201, &fresh)
	w = x.chat(t, fresh.Key)
	if got := w.Header().Get("RateLimit-Policy"); got != `"key";q=5;w=60, "organization";q=100;w=60` {
		t.Errorf("policy %s", got)
	}
	if got := w.Header().Get("RateLimit"); got != `"key";r=4;t=12, "organization";r=9;t=1` {
		t.Errorf("left %s", got)
	}
}
