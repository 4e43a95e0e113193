package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/export"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const operatorToken, serviceToken = "operator-token-1234", "service-token-1234"

var retention = meter.Retention{Minutes: 7 * 24 * time.Hour, Hours: 90 * 24 * time.Hour, Days: 1000 * 24 * time.Hour}

// world is the control over real keys, and customers' routes that these keys open.
type world struct {
	http.Handler

	customers http.Handler
	calls     []proxy.Call // of customers, that were relayed
	relay     func(w http.ResponseWriter, call proxy.Call) error
	plans     *plan.Watcher
	usage     *postgres.Usage
	manager   *apikey.Manager
	tokens    *postgres.Tokens
	users     *usertoken.Verifier // of customers' tokens
	logs      bytes.Buffer
}

// Do has relay answer a customer.
func (x *world) Do(w http.ResponseWriter, _ *http.Request, call proxy.Call) error {
	x.calls = append(x.calls, call)
	return x.relay(w, call)
}

// succeed answers a customer with success.
func succeed(w http.ResponseWriter, call proxy.Call) error {
	call.Succeeded(true)
	_, err := io.WriteString(w, "{}")
	return err
}

func newWorld(t *testing.T) *world {
	t.Helper()
	x := &world{relay: succeed}
	log, tracer, measured := slog.New(slog.NewJSONHandler(&x.logs, nil)), tracenoop.NewTracerProvider().Tracer(""), metricnoop.NewMeterProvider().Meter("")
	pool := testkit.Postgres(t, migrations.FS)
	pepper, err := apikey.NewPepper(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	keys := postgres.NewKeys(pool)
	x.usage = postgres.NewUsage(pool)
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	x.manager = apikey.NewManager(pepper, keys, nil, table.Products(), log)
	box, err := usertoken.NewBox(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	x.tokens, x.users = postgres.NewTokens(pool), usertoken.NewVerifier(apikey.Limits{})
	users := usertoken.NewManager(box, x.tokens, log)
	if err := users.Ensure(t.Context()); err != nil {
		t.Fatal(err)
	}
	x.plans, err = plan.NewWatcher(t.Context(), postgres.NewPlans(pool), log)
	if err != nil {
		t.Fatal(err)
	}
	credits := credit.NewManager(postgres.NewCredits(pool), log)
	x.Handler, err = control.New(control.Options{
		Log: log, Tracer: tracer, Meter: measured, Keys: x.manager, Users: users, Ledger: postgres.NewUsage(pool), Retention: retention,
		Alerts: alert.NewRules(postgres.NewAlerts(pool)), Approvers: approver.NewGroups(postgres.NewApprovers(pool)),
		Plans: plan.NewManager(postgres.NewPlans(pool), "default", log), Credits: credits,
		Exports: newExports(pool), Windows: postgres.NewThresholds(pool),
		Tokens: testkit.Tokens(t,
			testkit.Token{Name: "operator", Role: caller.RoleOperator, Text: operatorToken},
			testkit.Token{Name: "service", Role: caller.RoleService, Text: serviceToken}),
	})
	if err != nil {
		t.Fatal(err)
	}
	x.customers, err = api.New(api.Options{
		Log: log, Tracer: tracer, Meter: measured, Table: table.Served([]string{"gateway", "webhook-egress"}),
		Upstreams: map[string]*url.URL{"gateway": {Scheme: "http", Host: "gateway"}, "webhook-egress": {Scheme: "http", Host: "egress"}},
		Verifier:  apikey.NewVerifier(pepper, keys, 1000, time.Minute, apikey.Limits{}),
		Users:     x.users,
		Limiter:   limit.New(nil), Quotas: runQuotas(t, x.plans, pool), Credits: credits, Relay: x,
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// runQuotas runs an enforcer until the test ends. "default" is the plan of organizations without one.
func runQuotas(t *testing.T, plans quota.Plans, pool *pgxpool.Pool) *quota.Enforcer {
	t.Helper()
	quotas := quota.New(plans, "default", nil, postgres.NewUsage(pool))
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	var running sync.WaitGroup
	running.Go(func() { _ = quotas.Run(ctx, slog.New(slog.DiscardHandler)) })
	t.Cleanup(func() { stop(); running.Wait() })
	return quotas
}

// newExports returns exports to one destination.
func newExports(pool *pgxpool.Pool) *export.Manager {
	store := postgres.NewExports(pool)
	settings := export.Settings{Destinations: []export.Destination{{
		Name: "billing", Kind: export.Lago, BaseURL: "https://lago", KeyFile: "/run/keys/lago", Meters: map[string]string{"llm_requests": "calls"},
	}}}
	return export.NewManager(settings, store, map[export.Source]export.Pager{export.Counts: export.NewCountFeed(store)})
}

func (x *world) key(t *testing.T, product string, permissions ...apikey.Permission) (id, text string) {
	t.Helper()
	key, value, err := x.manager.Create(t.Context(), apikey.Actor{Name: "test"}, apikey.Request{Organization: "org-1", Product: product, Permissions: permissions})
	if err != nil {
		t.Fatal(err)
	}
	return key.ID, value.Reveal()
}

// do calls the control, or a customers' route.
func (x *world) do(t *testing.T, method, path, bearer, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	r.Header.Set("X-Request-Id", "req_1")
	w := httptest.NewRecorder()
	if strings.HasPrefix(path, "/product/") {
		x.customers.ServeHTTP(w, r)
		return w
	}
	x.ServeHTTP(w, r)
	return w
}

func TestRefusals(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", apikey.Read)
	for name, tt := range map[string]struct {
		method, path, bearer, body string
		status                     int
		reason, allow              string
	}{
		"unknown path":         {"GET", "/admin/v1/nothing", operatorToken, "", 404, "not_found", ""},
		"another verb":         {"DELETE", "/admin/v1/usage", operatorToken, "", 405, "method_not_allowed", "GET"},
		"no operator":          {"GET", "/admin/v1/keys", "", "", 401, "unauthenticated", ""},
		"a customer":           {"GET", "/admin/v1/usage", key, "", 401, "unauthenticated", ""},
		"a service":            {"POST", "/admin/v1/keys", serviceToken, "{}", 403, "forbidden", ""},
		"bad JSON":             {"POST", "/admin/v1/keys", operatorToken, "{", 400, "invalid_request", ""},
		"two objects":          {"POST", "/admin/v1/keys", operatorToken, "{}{}", 400, "invalid_request", ""},
		"unknown field":        {"POST", "/admin/v1/keys", operatorToken, `{"organisation":"o"}`, 400, "organisation: ", ""},
		"wrong type":           {"POST", "/admin/v1/keys", operatorToken, `{"permissions":"read"}`, 400, "permissions: ", ""},
		"bad request":          {"POST", "/admin/v1/keys", operatorToken, `{"organization_id":"o","product":"x"}`, 400, "product: ", ""},
		"too large":            {"POST", "/admin/v1/keys", operatorToken, `{"name":"` + strings.Repeat("n", 70000) + `"}`, 413, "too_large", ""},
		"unknown key":          {"DELETE", "/admin/v1/keys/key_x", operatorToken, "", 404, "not_found", ""},
		"limit":                {"GET", "/admin/v1/keys?limit=201", operatorToken, "", 400, "limit: ", ""},
		"cursor":               {"GET", "/admin/v1/usage?cursor=!", operatorToken, "", 400, "cursor: ", ""},
		"time":                 {"GET", "/admin/v1/usage?from=yesterday", operatorToken, "", 400, "from: ", ""},
		"a group":              {"GET", "/admin/v1/usage?group_by=user,user", operatorToken, "", 400, "group_by: ", ""},
		"another group":        {"GET", "/admin/v1/usage?group_by=tag.A", operatorToken, "", 400, "group_by: ", ""},
		"groups by the minute": {"GET", "/admin/v1/usage?group_by=user&period=minute", operatorToken, "", 400, "period: ", ""},
		"half a tag":           {"GET", "/admin/v1/usage?tag=team", operatorToken, "", 400, "tag: ", ""},
		"a key as a tag":       {"GET", "/admin/v1/usage?tag=team=sk-ant-api03-aB3dE6gH9jaB3dE6gH9jaB3dE6gH9j", operatorToken, "", 400, "tag: ", ""},
		"unknown parameter":    {"GET", "/admin/v1/usage?org=o", operatorToken, "", 400, "org: ", ""},
		"zero in a key's id":   {"DELETE", "/admin/v1/keys/key%00", operatorToken, "", 404, "not_found", ""},
		"zero in a filter":     {"GET", "/admin/v1/keys?organization_id=%00", operatorToken, "", 400, "organization_id: ", ""},
		"not UTF-8":            {"GET", "/admin/v1/usage?metric=%ff", operatorToken, "", 400, "metric: ", ""},
		"zero in a cursor":     {"GET", "/admin/v1/keys?cursor=IlxcdTAwMDAi", operatorToken, "", 400, "cursor: ", ""},
		"a cursor in a name":   {"POST", "/admin/v1/keys", operatorToken, `{"organization_id":"o","product":"ai","permissions":["read"],"name":"a\u001b[1A"}`, 400, "name: must have at most 200 bytes of UTF-8, and no control characters", ""},
		"zero in a name":       {"POST", "/admin/v1/keys", operatorToken, `{"organization_id":"o","product":"ai","permissions":["read"],"name":"\u0000"}`, 400, "name: ", ""},
		"encoded path segment": {"DELETE", "/admin/v1/keys/key%2Fx", operatorToken, "", 404, "not_found", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := x.do(t, tt.method, tt.path, tt.bearer, tt.body)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.reason) || w.Header().Get("Allow") != tt.allow {
				t.Errorf("%d %s, Allow %q; want %d %s %q", w.Code, w.Body, w.Header().Get("Allow"), tt.status, tt.reason, tt.allow)
			}
			var body apierr.Document
			if err := json.Unmarshal(w.Body.Bytes(), &body); err != nil || body.RequestID != "req_1" {
				t.Errorf("body %s: %v", w.Body, err)
			}
		})
	}
}

func TestKeysOverHTTP(t *testing.T) {
	x := newWorld(t)
	made := x.do(t, "POST", "/admin/v1/keys", operatorToken,
		`{"organization_id":"org-9","product":"ai","permissions":["write","read"],"name":"n","environment":"test","expires_at":"2100-01-01T00:00:00Z"}`)
	var key map[string]any
	if err := json.Unmarshal(made.Body.Bytes(), &key); err != nil || made.Code != 201 {
		t.Fatalf("%d %s", made.Code, made.Body)
	}
	text, _ := key["key"].(string)
	id, _ := key["id"].(string)
	delete(key, "key")
	delete(key, "id")
	delete(key, "created_at")
	if diff := cmp.Diff(map[string]any{
		"organization_id": "org-9", "product": "ai", "permissions": []any{"read", "write"}, "name": "n", "environment": "test",
		"expires_at": "2100-01-01T00:00:00Z", "revoked_at": nil, "last_used_at": nil, "plan": nil, "rate_limit": nil,
		"tpm": nil, "models": nil, "budget": nil, "class": nil,
	}, key); diff != "" || !strings.HasPrefix(text, "swy_test_") {
		t.Errorf("key (-want +got):\n%s", diff)
	}
	if w := x.do(t, "POST", "/product/v1/ai/chat", text, "{}"); w.Code != 200 {
		t.Errorf("new key: %d %s", w.Code, w.Body)
	}
	for range 4 {
		x.key(t, "ai", apikey.Read)
	}
	seen := map[string]bool{}
	for cursor := ""; ; {
		w := x.do(t, "GET", "/admin/v1/keys?limit=2&cursor="+cursor, operatorToken, "")
		var page struct {
			Keys       []control.Key `json:"keys"`
			NextCursor string        `json:"next_cursor"`
		}
		if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || len(page.Keys) > 2 {
			t.Fatalf("%s: %v", w.Body, err)
		}
		testkit.NoLeak(t, text, w.Body.String(), x.logs.String())
		for _, k := range page.Keys {
			seen[k.ID] = true
		}
		if cursor = page.NextCursor; cursor == "" {
			break
		}
	}
	if len(seen) != 5 {
		t.Errorf("listed %d keys, want 5", len(seen))
	}
	for range 2 {
		if w := x.do(t, "DELETE", "/admin/v1/keys/"+id, operatorToken, ""); w.Code != 204 || w.Body.Len() > 0 {
			t.Errorf("revoke: %d %s", w.Code, w.Body)
		}
	}
}

// A key is created with scopes or not at all.
func TestCreateWithScopes(t *testing.T) {
	x := newWorld(t)
	create := func(permissions string) (int, string) {
		w := x.do(t, http.MethodPost, "/admin/v1/keys", operatorToken, `{"organization_id":"org-7","product":"webhooks","permissions":`+permissions+`}`)
		return w.Code, w.Body.String()
	}
	code, body := create(`["webhooks:deliveries:read","read","webhooks:deliveries:read"]`)
	if code != http.StatusCreated || !strings.Contains(body, `"permissions":["read","webhooks:deliveries:read"]`) {
		t.Errorf("created with %d: %s", code, body)
	}
	for _, bad := range []string{`["webhooks:deliveries:reed"]`, `["read","webhooks"]`, `["*"]`, `[]`, `[""]`} {
		if code, body := create(bad); code != http.StatusBadRequest || !strings.Contains(body, "permissions: must hold one or more of read, write, ai:*") {
			t.Errorf("%s: %d %s", bad, code, body)
		}
	}
	if keys, err := x.manager.List(t.Context(), "org-7", "", 10); err != nil || len(keys) != 1 {
		t.Errorf("%d keys: %v", len(keys), err)
	}
}
