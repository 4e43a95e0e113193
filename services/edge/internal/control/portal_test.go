package control_test

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/proxy"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const portalURL = "https://api.example.com"

// portalWorld is a control with the portal, over services that answer "{}".
type portalWorld struct {
	http.Handler

	usage *postgres.Usage
	keys  *apikey.Manager
	plans *plan.Watcher
	pool  *pgxpool.Pool
	// gateway has the approval that identified people decide on.
	gateway *approvals
	table   route.Table
	fails   bool // calls of services fail
	mu      sync.Mutex
	calls   []relayed
	metrics []string // as which the calls count that succeeded
}

// relayed is a call that reached a service.
type relayed struct {
	organization, key, owner, user, run, target, body string
	verified, ownerSession                            bool
}

func (x *portalWorld) Do(w http.ResponseWriter, r *http.Request, call proxy.Call) error {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return err
	}
	x.mu.Lock()
	x.calls = append(x.calls, relayed{
		call.Organization, call.Key, r.Header.Get(caller.HeaderOwner), r.Header.Get(caller.HeaderUser), r.Header.Get(caller.HeaderRun),
		call.Target.String(), string(body), call.Verified, call.OwnerSession,
	})
	x.mu.Unlock()
	if call.Follow != nil {
		defer call.Follow(func(error) {})()
	}
	if x.fails {
		return errBroken
	}
	if call.Succeeded != nil {
		call.Succeeded(true)
	}
	if call.Metric != "" {
		x.mu.Lock()
		x.metrics = append(x.metrics, call.Metric)
		x.mu.Unlock()
	}
	_, err = w.Write([]byte("{}"))
	return err
}

func newPortal(t *testing.T) *portalWorld {
	t.Helper()
	pool := testkit.Postgres(t, migrations.FS)
	x := &portalWorld{usage: postgres.NewUsage(pool), pool: pool, gateway: newApprovals()}
	var err error
	if x.table, err = route.Snapshot(); err != nil {
		t.Fatal(err)
	}
	pepper, err := apikey.NewPepper(secret.New(strings.Repeat("p", 32)))
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	x.keys = apikey.NewManager(pepper, postgres.NewKeys(pool), nil, x.table.Products(), log)
	upstreams := make(map[string]*url.URL)
	for _, r := range x.table.Routes {
		upstreams[r.Upstream] = &url.URL{Scheme: "http", Host: r.Upstream}
	}
	at, err := url.Parse(portalURL)
	if err != nil {
		t.Fatal(err)
	}
	if x.plans, err = plan.NewWatcher(t.Context(), postgres.NewPlans(pool), log); err != nil {
		t.Fatal(err)
	}
	x.Handler, err = control.New(control.Options{
		Log: log, Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
		Keys: x.keys, Ledger: x.usage, Retention: retention, Plans: plan.NewManager(postgres.NewPlans(pool), "default", log),
		Credits: credit.NewManager(postgres.NewCredits(pool), log), Windows: postgres.NewThresholds(pool),
		Tokens: testkit.Tokens(t, testkit.Token{Name: "operator", Role: caller.RoleOperator, Text: operatorToken}),
		Alerts: alert.NewRules(postgres.NewAlerts(pool)), Approvers: approver.NewGroups(postgres.NewApprovers(pool)),
		Decisions: control.NewDecisions(x.gateway, members{"ann": true}, persons{x.gateway}, keyNames{}, nil),
		Portal: &control.Portal{
			Sessions: portal.NewSessions(postgres.NewPortal(pool), x.table), URL: at, Table: x.table, Upstreams: upstreams,
			Relay: x, Limiter: limit.New(nil),
			Enforcer: runQuotas(t, x.plans, pool),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

type portalAnswer struct {
	Status  int
	Header  http.Header
	Body    io.Reader
	Cookies []*http.Cookie
}

// do makes a request with headers, pairs of name and value.
func (x *portalWorld) do(t *testing.T, method, path, body string, headers ...string) portalAnswer {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	result := w.Result()
	defer func() { _ = result.Body.Close() }()
	return portalAnswer{w.Code, w.Header(), w.Body, result.Cookies()}
}

// link makes a link and returns its path.
func (x *portalWorld) link(t *testing.T, body string) string {
	t.Helper()
	answer := x.do(t, "POST", "/admin/v1/portal/sessions", body, "Authorization", "Bearer "+operatorToken)
	var made struct {
		URL       string
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.NewDecoder(answer.Body).Decode(&made); err != nil || answer.Status != http.StatusCreated {
		t.Fatalf("make a link: %d, %v", answer.Status, err)
	}
	if left := time.Until(made.ExpiresAt); left <= 0 || left > 10*time.Minute {
		t.Errorf("the link ends in %v, want within 10 minutes", left)
	}
	path, ok := strings.CutPrefix(made.URL, portalURL)
	if !ok {
		t.Fatalf("URL %s", made.URL)
	}
	return path
}

const allScopes = `["webhooks:*","notifications:*","ai:*"]`

// session opens a session and returns the headers that its page sends.
func (x *portalWorld) session(t *testing.T, body string) []string {
	t.Helper()
	answer := x.do(t, "GET", x.link(t, body), "")
	if answer.Status != http.StatusSeeOther || len(answer.Cookies) != 1 {
		t.Fatalf("open: %d with %d cookies", answer.Status, len(answer.Cookies))
	}
	cookie := answer.Cookies[0]
	return []string{"Cookie", cookie.Name + "=" + cookie.Value, "Origin", portalURL, "X-Switchyard-Portal", "1", "Sec-Fetch-Site", "same-origin"}
}

func request(organization, owner, user, scopes string) string {
	return `{"organization_id":"` + organization + `","owner_id":"` + owner + `","user_id":"` + user + `","scopes":` + scopes + `,"return_url":"https://app.example/back"}`
}

// A session makes and replaces keys that may do no more than itself, and reaches no other organization's.
func TestPortalKeys(t *testing.T) {
	x := newPortal(t)
	own := x.session(t, request("org-1", "", "", `["webhooks:endpoints:read","webhooks:endpoints:write","keys:write"]`))
	create := func(body string) (int, control.Key) {
		answer := x.do(t, "POST", "/portal/api/keys", body, own...)
		var key control.Key
		if err := json.NewDecoder(answer.Body).Decode(&key); err != nil {
			t.Fatal(err)
		}
		return answer.Status, key
	}
	status, key := create(`{"product":"webhooks","permissions":["webhooks:endpoints:read"],"name":"<script>"}`)
	if status != 201 || key.Key == "" || key.Organization != "org-1" {
		t.Errorf("create: %d %+v", status, key)
	}
	for _, body := range []string{
		`{"product":"webhooks","permissions":["read"]}`, `{"product":"webhooks","permissions":["webhooks:*"]}`,
		`{"product":"webhooks","permissions":["webhooks:deliveries:read"]}`, `{"product":"webhooks","permissions":[]}`,
		`{"product":"ai","permissions":["webhooks:endpoints:read"]}`,
		`{"product":"webhooks","permissions":["webhooks:endpoints:read"],"organization_id":"org-2"}`,
	} {
		if status, _ := create(body); status != 400 {
			t.Errorf("%s: %d, want 400", body, status)
		}
	}
	by := apikey.Actor{Name: "test"}
	foreign, _, err := x.keys.Create(t.Context(), by, apikey.Request{Organization: "org-2", Product: "webhooks", Permissions: []apikey.Permission{"webhooks:endpoints:read"}})
	stronger, _, err2 := x.keys.Create(t.Context(), by, apikey.Request{Organization: "org-1", Product: "webhooks", Permissions: []apikey.Permission{"read"}})
	if err := errors.Join(err, err2); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		method, path string
		want         int
	}{
		{"POST", foreign.ID + "/rotate", 404},
		{"DELETE", foreign.ID, 404},
		{"POST", stronger.ID + "/rotate", 403},
		{"POST", key.ID + "/rotate", 201},
		{"DELETE", key.ID, 204},
	} {
		if answer := x.do(t, test.method, "/portal/api/keys/"+test.path, "", own...); answer.Status != test.want {
			t.Errorf("%s %s: %d, want %d", test.method, test.path, answer.Status, test.want)
		}
	}
	var list struct{ Keys []control.Key }
	if err := json.NewDecoder(x.do(t, "GET", "/portal/api/keys", "", own...).Body).Decode(&list); err != nil || len(list.Keys) != 3 {
		t.Errorf("%d keys (%v), want 3", len(list.Keys), err)
	}
	for _, k := range list.Keys {
		if k.Organization != "org-1" || k.Key != "" {
			t.Errorf("listed %+v", k)
		}
	}
	reader := x.session(t, request("org-1", "", "", `["keys:read"]`))
	for path, want := range map[string]int{"GET /portal/api/keys": 200, "POST /portal/api/keys": 403, "DELETE /portal/api/keys/" + stronger.ID: 403} {
		method, path, _ := strings.Cut(path, " ")
		if answer := x.do(t, method, path, "{}", reader...); answer.Status != want {
			t.Errorf("%s %s with keys:read: %d, want %d", method, path, answer.Status, want)
		}
	}
}

func TestPortalPages(t *testing.T) {
	x := newPortal(t)
	for path, kind := range map[string]string{
		"/portal/": "text/html; charset=utf-8", "/portal/portal.css": "text/css; charset=utf-8",
		"/portal/main.js": "text/javascript; charset=utf-8", "/portal/text/de.json": "application/json",
	} {
		answer := x.do(t, "GET", path, "")
		if answer.Status != http.StatusOK || answer.Header.Get("Content-Type") != kind {
			t.Errorf("%s: %d %s, want %s", path, answer.Status, answer.Header.Get("Content-Type"), kind)
		}
		const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; worker-src 'self'; " +
			"base-uri 'none'; form-action 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'"
		if got := answer.Header.Get("Content-Security-Policy"); got != policy {
			t.Errorf("%s: policy %q, want %q", path, got, policy)
		}
	}
	if answer := x.do(t, "GET", "/portal/nothing", ""); answer.Status != 404 {
		t.Errorf("an unknown page: %d, want 404", answer.Status)
	}
}
