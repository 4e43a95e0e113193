package api_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/platform/apierr"
)

const socketPath = "/product/v1/ai/openai/v1/responses"

// upgrade asks for a WebSocket connection.
func (x *world) upgrade(t *testing.T, method, path, key string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader("{}"))
	r.Header.Set("Authorization", "Bearer "+key)
	r.Header.Set("Connection", "Upgrade")
	r.Header.Set("Upgrade", "websocket")
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

// Connections open on the route that takes them, and with a key that may call it; elsewhere the header has no effect.
func TestUpgrades(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", apikey.Read)
	_, other := x.key(t, "webhooks", apikey.Read)
	for _, tt := range []struct {
		name, method, path, key string
		status, connections     int
	}{
		{"a connection", "GET", socketPath, key, 101, 1},
		{"no key", "GET", socketPath, "", 401, 1},
		{"a key of another product", "GET", socketPath, other, 403, 1},
		{"another method", "POST", socketPath, key, 200, 1},
		{"another route", "POST", "/product/v1/ai/chat", key, 200, 1},
		{"a stored response", "GET", socketPath + "/resp_1", key, 200, 1},
	} {
		w := x.upgrade(t, tt.method, tt.path, tt.key)
		if w.Code != tt.status || len(x.connections) != tt.connections {
			t.Errorf("%s: %d, %d connections; want %d, %d", tt.name, w.Code, len(x.connections), tt.status, tt.connections)
		}
	}
	if w := x.do(t, "GET", socketPath, key, ""); w.Code != 200 || len(x.connections) != 1 { // The gateway answers it.
		t.Errorf("without an upgrade: %d", w.Code)
	}
	call := x.connections[0]
	if call.Target.String() != "http://gateway/v1/responses" || call.Organization != "org-1" || call.Dialect != "openai" {
		t.Errorf("%+v", call)
	}
	if call.Metric != "llm_requests" {
		t.Errorf("counts as %q", call.Metric)
	}
	if logs := x.logs.String(); !strings.Contains(logs, `"websocket_code":1000`) || !strings.Contains(logs, `"requests":3,"counted":2`) {
		t.Errorf("the connection is not in the log: %s", logs)
	}
}

// Each request on a connection is admitted as a call of its own.
func TestAdmitsEachRequest(t *testing.T) {
	x := newWorld(t)
	by := apikey.Actor{Name: "test"}
	limited, value, err := x.manager.Create(t.Context(), by, apikey.Request{
		Organization: "org-1", Product: "ai", Permissions: []apikey.Permission{apikey.Read}, Limit: limit.Limit{Requests: 3, Window: time.Hour, Burst: 3},
	})
	if err != nil {
		t.Fatal(err)
	}
	x.upgrade(t, http.MethodGet, socketPath, value.Reveal())
	call := x.connections[0]
	for range 2 { // The upgrade was the first.
		if err := call.Admit(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	refused := apierr.From(call.Admit(t.Context()))
	if refused == nil || refused.Kind != apierr.KindRateLimited || refused.RetryAfter == 0 {
		t.Fatalf("%s beyond its limit: %v", limited.ID, refused)
	}
	var got map[string]any
	if err := json.Unmarshal(call.Refusal(refused, "lane"), &got); err != nil {
		t.Fatal(err)
	}
	headers, _ := got["headers"].(map[string]any)
	nested, _ := got["error"].(map[string]any)
	text, _ := got["message"].(string)
	if got["type"] != "error" || got["status"] != 429.0 || got["stream_id"] != "lane" || got["code"] != "rate_limit_exceeded" ||
		nested["code"] != got["code"] || nested["message"] != text || headers["retry-after"] == "" || !strings.Contains(text, "try again in ") {
		t.Errorf("%v", got)
	}
	exceeded := apierr.New(apierr.KindRateLimited, quota.ReasonExceeded, "used up")
	exceeded.Class, exceeded.RetryAfter = apierr.ClassPolicy, time.Hour
	if text := string(call.Refusal(exceeded, "lane")); !strings.Contains(text, `"code":"insufficient_quota","message":"used up"`) {
		t.Errorf("a plan that is used up: %s", text)
	}
}
