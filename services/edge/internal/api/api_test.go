package api_test

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

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/edge/internal/api"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/quota"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/internal/usertoken"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const serviceToken = "service-token-1234"

// world is a face over real keys, with a relay and a counter of its own.
type world struct {
	http.Handler

	manager  *apikey.Manager
	verifier *apikey.Verifier
	// minter mints tokens of end users, users checks them.
	minter *usertoken.Manager
	users  *usertoken.Verifier
	tokens *postgres.Tokens
	logs   bytes.Buffer
	// calls are those that were relayed, connections those of WebSockets.
	calls, connections []proxy.Call
	// counted are the metrics of successes.
	counted []string
	relay   func(w http.ResponseWriter, call proxy.Call) error
	// drain begins a drain.
	drain context.CancelFunc
}

func (x *world) Do(w http.ResponseWriter, _ *http.Request, call proxy.Call) error {
	x.calls = append(x.calls, call)
	if call.Metric != "" {
		x.counted = append(x.counted, call.Metric)
	}
	return x.relay(w, call)
}

func (x *world) Connect(w http.ResponseWriter, _ *http.Request, call proxy.Call) (proxy.Session, error) {
	x.connections = append(x.connections, call)
	w.WriteHeader(http.StatusSwitchingProtocols)
	return proxy.Session{Code: 1000, Requests: 3, Counted: 2}, nil
}

// documents are those of the whole table, which worlds share: to make them takes longer than all else of a world.
var documents = sync.OnceValues(func() (map[string]http.Handler, error) {
	table, err := route.Snapshot()
	if err != nil {
		return nil, err
	}
	return api.Documents(table, proxy.Bounds{Body: 1 << 20, BodyTime: time.Minute, WriteTime: time.Minute})
})

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldWith(t, nil)
}

func newWorldWith(t *testing.T, control *api.Control) *world {
	t.Helper()
	x := &world{relay: func(w http.ResponseWriter, _ proxy.Call) error {
		_, err := io.WriteString(w, `{"content":"hello"}`)
		return err
	}}
	log := slog.New(slog.NewJSONHandler(&x.logs, nil))
	pool := testkit.Postgres(t, migrations.FS)
	pepper, err := apikey.NewPepper(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	keys := postgres.NewKeys(pool)
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	x.manager = apikey.NewManager(pepper, keys, nil, table.Products(), log)
	x.verifier = apikey.NewVerifier(pepper, keys, 1000, time.Minute, apikey.Limits{})
	x.tokens = postgres.NewTokens(pool)
	box, err := usertoken.NewBox(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	x.minter, x.users = usertoken.NewManager(box, x.tokens, log), usertoken.NewVerifier(apikey.Limits{})
	drained, drain := context.WithCancel(t.Context())
	x.drain = drain
	upstreams := map[string]*url.URL{}
	for _, r := range table.Routes {
		upstreams[r.Upstream] = &url.URL{Scheme: "http", Host: r.Upstream}
	}
	shared, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	x.Handler, err = api.New(api.Options{
		Log: log, Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
		Table: table, Upstreams: upstreams, Verifier: x.verifier, Users: x.users,
		Documents: shared,
		Limiter:   limit.New(nil), Quotas: noQuotas(), Credits: credit.NewManager(postgres.NewCredits(pool), log), Relay: x, Sockets: x, Control: control, Members: annAlone{},
		Drain: func(end func()) func() bool { return context.AfterFunc(drained, end) },
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// noPlans are no plans at all.
type noPlans struct{}

func (noPlans) Plan(string) *plan.Plan { return nil }

func noQuotas() *quota.Enforcer { return quota.New(noPlans{}, "", nil, nil) }

func (x *world) key(t *testing.T, product string, permissions ...apikey.Permission) (id, text string) {
	t.Helper()
	key, value, err := x.manager.Create(t.Context(), apikey.Actor{Name: "test"}, apikey.Request{Organization: "org-1", Product: product, Permissions: permissions})
	if err != nil {
		t.Fatal(err)
	}
	return key.ID, value.Reveal()
}

func (x *world) do(t *testing.T, method, path, bearer, body string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	if bearer != "" {
		r.Header.Set("Authorization", "Bearer "+bearer)
	}
	r.Header.Set("X-Request-Id", "req_1")
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

func (x *world) chat(t *testing.T, key string) *httptest.ResponseRecorder {
	t.Helper()
	return x.do(t, http.MethodPost, "/product/v1/ai/chat", key, "{}")
}

func TestWhoMayCallWhat(t *testing.T) {
	x := newWorld(t)
	routes := map[string]struct {
		products   []string
		permission apikey.Permission
	}{
		"/product/v1/ai/chat":                                       {[]string{"ai", "agents", "platform"}, apikey.Read},
		"/product/v1/webhooks/deliveries":                           {[]string{"webhooks", "platform"}, apikey.Write},
		"/product/v1/notifications/send":                            {[]string{"notifications"}, apikey.Write},
		"/product/v1/notifications/sends/{notification_id}/updates": {[]string{"notifications"}, apikey.Write},
	}
	for _, product := range []string{"ai", "agents", "platform", "webhooks", "notifications"} {
		for _, permission := range []apikey.Permission{apikey.Read, apikey.Write} {
			_, key := x.key(t, product, permission)
			for path, r := range routes {
				wrong, lacking := "product_not_allowed", "permission_denied"
				if strings.HasPrefix(path, "/product/v1/notifications/") { // a text alone
					wrong, lacking = `{"error":"the product of this API key does not include this operation: it needs a key of product notifications"}`, `needs: notifications:sends:write or write"}`
				}
				want := "hello"
				switch {
				case !strings.Contains(strings.Join(r.products, " ")+" ", product+" "):
					want = wrong
				case permission != r.permission:
					want = lacking
				}
				if got := x.do(t, "POST", path, key, "{}"); !strings.Contains(got.Body.String(), want) {
					t.Errorf("%s key with %s on %s: %d %s; want %s", product, permission, path, got.Code, got.Body, want)
				}
			}
		}
	}
}

func TestIdentityOfACall(t *testing.T) {
	x := newWorld(t)
	id, key := x.key(t, "ai", apikey.Read)
	x.do(t, "POST", "/product/v1/ai/chat", key, `{"organization_id":"org-1"}`)
	call := x.calls[0]
	if call.Organization != "org-1" || call.Key != id {
		t.Errorf("called for %s with key %s, want org-1 with %s", call.Organization, call.Key, id)
	}
	if call.Target.Host != "gateway" || call.Target.RequestURI() != "/v1/llm/chat" {
		t.Errorf("called %s, want /v1/llm/chat of gateway", call.Target)
	}
	if call.Timeout != 5*time.Minute {
		t.Errorf("timeout %s, want 5m", call.Timeout)
	}
}

// A call that its service has answered and not counted is reported.
func TestUncounted(t *testing.T) {
	x := newWorld(t)
	_, key := x.key(t, "ai", apikey.Read)
	for _, tt := range []struct {
		path     string
		counted  bool
		reported bool
	}{
		{"/product/v1/ai/chat", true, false},
		{"/product/v1/ai/chat", false, true},
		{"/product/v1/ai/openai/v1/models", false, false},
	} {
		x.logs.Reset()
		x.relay = func(w http.ResponseWriter, call proxy.Call) error {
			call.Succeeded(tt.counted)
			_, err := io.WriteString(w, "{}")
			return err
		}
		method := http.MethodPost
		if strings.HasSuffix(tt.path, "models") {
			method = http.MethodGet
		}
		if w := x.do(t, method, tt.path, key, "{}"); w.Code != http.StatusOK {
			t.Fatalf("%s: %d %s", tt.path, w.Code, w.Body)
		}
		if reported := strings.Contains(x.logs.String(), "not counted it"); reported != tt.reported {
			t.Errorf("%s, counted %t: reported %t", tt.path, tt.counted, reported)
		}
	}
}

func TestCatalog(t *testing.T) {
	x := newWorld(t)
	w := x.do(t, "GET", "/product/v1/_meta/catalog", "", "")
	var got route.Table
	if err := json.Unmarshal(w.Body.Bytes(), &got); err != nil || w.Code != 200 {
		t.Fatalf("%d %s: %v", w.Code, w.Body, err)
	}
	table, err := route.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Routes) != len(table.Routes) || got.Version != "v1" {
		t.Fatalf("%d routes of version %q, want %d of v1", len(got.Routes), got.Version, len(table.Routes))
	}
	etag := w.Header().Get("ETag")
	for header, want := range map[string]int{etag: 304, "W/" + etag + `, "x"`: 304, "*": 304, `"x"`: 200, "": 200} {
		r := httptest.NewRequestWithContext(t.Context(), "GET", "/product/v1/_meta/catalog", nil)
		r.Header.Set("If-None-Match", header)
		w := httptest.NewRecorder()
		x.ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("If-None-Match %q: %d, want %d", header, w.Code, want)
		}
		if got := w.Header().Get("ETag"); got != etag {
			t.Errorf("If-None-Match %q: ETag %q, want %q", header, got, etag)
		}
		if want == 304 && w.Body.Len() > 0 {
			t.Errorf("If-None-Match %q: 304 with a body of %d bytes", header, w.Body.Len())
		}
	}
}
