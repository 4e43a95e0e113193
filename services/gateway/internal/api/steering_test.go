package api_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/governance/steering"
)

// visit calls the JSON face with a token; "" sends none.
func (b *bench) visit(tb testing.TB, token, method, path, body string, headers ...string) answer {
	tb.Helper()
	r, err := http.NewRequestWithContext(tb.Context(), method, b.http.URL+path, strings.NewReader(body))
	if err != nil {
		tb.Fatal(err)
	}
	r.Header.Set("X-Request-Id", "req-test")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	resp, err := b.http.Client().Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		tb.Fatal(err)
	}
	return answer{resp.StatusCode, string(text), resp.Header}
}

// in decodes the answer as JSON.
func (a answer) in(tb testing.TB, status int, into any) {
	tb.Helper()
	if a.status != status {
		tb.Fatalf("%d %s, want %d", a.status, a.body, status)
	}
	if err := json.Unmarshal([]byte(a.body), into); err != nil {
		tb.Fatalf("%v: %s", err, a.body)
	}
}

// fields is a decoded JSON object.
type fields = map[string]any

func (b *bench) auditOf(tb testing.TB, action string) []audit.Entry {
	tb.Helper()
	entries, err := b.control.List(tb.Context(), audit.Filter{Action: action, Limit: 50})
	if err != nil {
		tb.Fatal(err)
	}
	return entries
}

func TestPin(t *testing.T) {
	b := setup(t)
	var pin fields
	b.visit(t, "ops", "GET", "/v1/admin/pin-status", "").in(t, http.StatusOK, &pin)
	if pin["pinned"] != false || pin["provider"] != nil || pin["version"] != 0.0 {
		t.Errorf("%v", pin)
	}
	b.visit(t, "ops", "POST", "/v1/admin/pin", `{"provider":"second","model":"spare","reason":"first is slow","expected_version":0}`, "X-User-Id", "ada").in(t, http.StatusOK, &pin)
	if pin["pinned"] != true || pin["provider"] != "second" || pin["model"] != "spare" || pin["version"] != 1.0 || pin["set_by"] != "ada" || pin["since"] == nil {
		t.Errorf("%v", pin)
	}
	var config fields
	b.visit(t, "ops", "GET", "/v1/admin/routing-config", "").in(t, http.StatusOK, &config)
	if set, _ := config["pin"].(fields); set["provider"] != "second" || config["default_goal"] != "quality" || len(config["provider_ranks"].([]any)) == 0 || len(config["fallback_ladder"].([]any)) != 4 {
		t.Errorf("%v", config)
	}
	// In force at once here, without failover.
	got := b.chat(t, `{"model":"sandbox","messages":[{"role":"user","content":"hi"}]}`)
	if p := got.header.Get("X-Switchyard-Provider"); p != "second" {
		t.Errorf("served by %q: %d %s", p, got.status, got.body)
	}
	b.chat(t, `{"model":"sandbox","allow_substitution":false,"messages":[{"role":"user","content":"hi"}]}`).
		refused(t, http.StatusUnprocessableEntity, "unprocessable", "routing is pinned to second/spare")

	conflict := b.visit(t, "ops", "POST", "/v1/admin/pin", `{"provider":"first","expected_version":0}`)
	conflict.refused(t, http.StatusConflict, "version_conflict", "the present version is 1")
	b.visit(t, "ops", "POST", "/v1/admin/unpin", `{"expected_version":7}`).refused(t, http.StatusConflict, "version_conflict", "the present version is 1")
	for body, want := range map[string]string{
		`{}`:                                          "provider",
		`{"provider":"nobody"}`:                       "provider: no provider",
		`{"provider":"second","model":"nope"}`:        "model: the provider second has no model",
		`{"provider":"first","model":"ancient"}`:      "model: first/ancient is retired",
		`{"provider":"second","colour":"red"}`:        "colour",
		`{"provider":"second","expected_version":-1}`: "expected_version",
	} {
		if a := b.visit(t, "ops", "POST", "/v1/admin/pin", body); a.status != http.StatusBadRequest || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 with %q", body, a.status, a.body, want)
		}
	}
	b.visit(t, "ops", "POST", "/v1/admin/unpin", `{"reason":"done","expected_version":1}`).in(t, http.StatusOK, &pin)
	if pin["pinned"] != false || pin["version"] != 2.0 || pin["since"] != nil {
		t.Errorf("%v", pin)
	}
	b.visit(t, "ops", "POST", "/v1/admin/unpin", `{}`).in(t, http.StatusOK, &pin) // Changes nothing.
	if entries := b.auditOf(t, "routing."); pin["version"] != 2.0 || len(entries) != 2 || entries[0].Action != "routing.unpin" || entries[1].Action != "routing.pin" ||
		entries[1].Actor != "ada" || entries[1].Reason != "first is slow" || !strings.Contains(string(entries[1].Details), "spare") {
		t.Errorf("%v, %+v", pin, entries)
	}
}

func TestCanaryByAPI(t *testing.T) {
	b := setup(t)
	var canary fields
	b.visit(t, "ops", "GET", "/v1/admin/canary-status", "").in(t, http.StatusOK, &canary)
	if canary["active"] != false || canary["percentage"] != 0.0 || len(canary["arms"].([]any)) != 0 {
		t.Errorf("%v", canary)
	}
	for body, want := range map[string]string{
		`{"provider":"second"}`:                                      "percentage: is required",
		`{"provider":"second","percentage":100.5}`:                   "percentage",
		`{"provider":"second","percentage":-1}`:                      "percentage",
		`{"provider":"second","percentage":"NaN"}`:                   "percentage",
		`{"provider":"second","percentage":5,"sticky_by":"weekday"}`: "sticky_by",
		`{"provider":"nobody","percentage":5}`:                       "provider",
	} {
		if a := b.visit(t, "ops", "POST", "/v1/admin/canary", body); a.status != http.StatusBadRequest || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want 400 with %q", body, a.status, a.body, want)
		}
	}
	b.visit(t, "ops", "POST", "/v1/admin/canary", `{"provider":"second","model":"spare","percentage":50,"sticky_by":"run"}`).in(t, http.StatusOK, &canary)
	if canary["active"] != true || canary["version"] != 1.0 || canary["sticky_by"] != "run" || canary["percentage"] != 50.0 {
		t.Errorf("%v", canary)
	}
	const n = 40
	served := make(map[string]int)
	for i := range n {
		run := fmt.Sprint("run-", i/2) // Two calls for each run.
		a := b.chat(t, `{"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", run)
		if a.status != http.StatusOK {
			t.Fatalf("%d %s", a.status, a.body)
		}
		provider := a.header.Get("X-Switchyard-Provider")
		served[provider]++
		if other := b.chat(t, `{"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", run).header.Get("X-Switchyard-Provider"); other != provider {
			t.Errorf("%s was served by %s, then by %s", run, provider, other)
		}
	}
	if served["second"] == 0 || served["sandbox"] == 0 {
		t.Errorf("%v", served)
	}
	b.visit(t, "ops", "GET", "/v1/admin/canary-status", "").in(t, http.StatusOK, &canary)
	arms := canary["arms"].([]any)
	first, second := arms[0].(fields), arms[1].(fields)
	if first["arm"] != "canary" || first["requests"] != float64(2*served["second"]) || second["requests"] != float64(2*served["sandbox"]) ||
		first["failed"] != 0.0 || first["mean_latency_ms"] == 0.0 {
		t.Errorf("%v, served %v", arms, served)
	}
	// Another canary counts from the beginning.
	b.visit(t, "ops", "POST", "/v1/admin/canary", `{"provider":"second","percentage":0}`).in(t, http.StatusOK, &canary)
	if canary["active"] != true || canary["arms"].([]any)[0].(fields)["requests"] != 0.0 {
		t.Errorf("%v", canary)
	}
	b.visit(t, "ops", "POST", "/v1/admin/canary-stop", `{"expected_version":2,"reason":"done"}`).in(t, http.StatusOK, &canary)
	if canary["active"] != false || canary["version"] != 3.0 {
		t.Errorf("%v", canary)
	}
	if entries := b.auditOf(t, "routing."); len(entries) != 3 || entries[0].Action != "routing.canary_stop" {
		t.Errorf("%+v", entries)
	}
}

// Only operators may steer, on both faces.
func TestSteeringIsTheOperators(t *testing.T) {
	b := setup(t)
	for _, of := range []string{"GET /v1/admin/routing-config", "POST /v1/admin/pin", "POST /v1/admin/unpin", "GET /v1/admin/pin-status", "POST /v1/admin/canary", "POST /v1/admin/canary-stop", "GET /v1/admin/canary-status", "POST /v1/models/registry/m/deprecate", "POST /v1/pricing/reconcile"} {
		method, path, _ := strings.Cut(of, " ")
		for token, want := range map[string]int{"": 401, "svc": 403, "sup": 403} {
			if a := b.visit(t, token, method, path, `{}`); a.status != want {
				t.Errorf("%s as %q: %d %s", of, token, a.status, a.body)
			}
		}
	}
	client := gatewayv1.NewRoutingServiceClient(b.conn)
	as := func(token string) metadata.MD { return metadata.Pairs("authorization", "Bearer "+token) }
	if _, err := client.SetPin(metadata.NewOutgoingContext(t.Context(), as("svc")), &gatewayv1.SetPinRequest{Provider: "second"}); status.Code(err) != codes.PermissionDenied {
		t.Error(err)
	}
	ctx := metadata.NewOutgoingContext(t.Context(), as("ops"))
	pin, err := client.SetPin(ctx, &gatewayv1.SetPinRequest{Provider: "second", ExpectedVersion: new(int32(0))})
	if err != nil || !pin.GetPinned() || pin.GetVersion() != 1 {
		t.Errorf("%v, %v", pin, err)
	}
	if _, err := client.ClearPin(ctx, &gatewayv1.ClearPinRequest{ExpectedVersion: new(int32(0))}); status.Code(err) != codes.Aborted {
		t.Errorf("%v", err)
	}
}

// Another replica's settings are in force here within a second, without a notification.
func TestSteeringIsFollowed(t *testing.T) {
	b := setup(t)
	other := steering.NewOverrides(b.steeringStore(), nil)
	if _, err := other.Set(t.Context(), steering.KindPin, steering.Change{To: steering.Setting{Target: target("second", "spare"), Since: time.Now(), By: "ops"}}); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(time.Second)
	for b.overrides.Override().Pin == nil {
		if time.Now().After(deadline) {
			t.Fatal("the pin is not in force after a second")
		}
		<-time.After(10 * time.Millisecond)
	}
}
