package control_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
	"switchyard.dev/services/edge/internal/meter"
	"switchyard.dev/services/edge/internal/plan"
	"switchyard.dev/services/edge/internal/portal"
	"switchyard.dev/services/edge/internal/postgres"
	"switchyard.dev/services/edge/internal/route"
	"switchyard.dev/services/edge/migrations"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
)

const consoleURL = "https://ops.example.com"

// withoutToken is a set of tokens that forgets a token once told to.
type withoutToken struct {
	*caller.Tokens

	mu   sync.Mutex
	gone bool
}

func (x *withoutToken) Holder(digest caller.TokenDigest) (caller.Caller, bool) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.gone {
		return caller.Caller{}, false
	}
	return x.Tokens.Holder(digest)
}

// newConsole returns a control with the portal and the console, over services that answer "{}".
func newConsole(t *testing.T) (*portalWorld, *withoutToken) {
	t.Helper()
	pool := testkit.Postgres(t, migrations.FS)
	x := &portalWorld{usage: postgres.NewUsage(pool)}
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
	tokens := &withoutToken{Tokens: testkit.Tokens(t,
		testkit.Token{Name: "olga", Role: caller.RoleOperator, Text: operatorToken},
		testkit.Token{Name: "billing", Role: caller.RoleService, Text: "a-service-token"},
	)}
	x.Handler, err = control.New(control.Options{
		Log: log, Tracer: tracenoop.NewTracerProvider().Tracer(""), Meter: metricnoop.NewMeterProvider().Meter(""),
		Keys: x.keys, Ledger: x.usage, Retention: retention, Tokens: tokens.Tokens,
		Plans: plan.NewManager(postgres.NewPlans(pool), "", log), Credits: credit.NewManager(postgres.NewCredits(pool), log),
		Alerts: alert.NewRules(postgres.NewAlerts(pool)), Windows: postgres.NewThresholds(pool),
		Portal: &control.Portal{
			Sessions: portal.NewSessions(postgres.NewPortal(pool)), URL: parse(t, portalURL), Table: x.table, Upstreams: upstreams,
			Relay: x, Limiter: limit.New(nil), Counter: x.usage,
		},
		Console: &control.Console{
			Sessions: console.NewSessions(postgres.NewConsole(pool), tokens), URL: parse(t, consoleURL), Table: x.table, Upstreams: upstreams,
			Relay: x, Plain: x, Token: secret.New("control's-token"), Limiter: limit.New(nil),
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return x, tokens
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// fromConsole are the headers of a request that a page of the console makes.
var fromConsole = []string{"Origin", consoleURL, "X-Switchyard-Portal", "1", "Sec-Fetch-Site", "same-origin"}

// signIn signs an operator in and returns the headers that the pages then send.
func (x *portalWorld) signIn(t *testing.T) []string {
	t.Helper()
	answer := x.do(t, "POST", "/console/api/session", `{"token":"`+operatorToken+`"}`, fromConsole...)
	if answer.Status != http.StatusCreated || len(answer.Cookies) != 1 {
		t.Fatalf("sign in: %d with %d cookies", answer.Status, len(answer.Cookies))
	}
	c := answer.Cookies[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteStrictMode || c.Path != "/console" || c.MaxAge <= 0 || c.MaxAge > 8*3600 {
		t.Errorf("cookie %+v", c)
	}
	return append(slices.Clone(fromConsole), "Cookie", c.Name+"="+c.Value)
}

func TestConsoleSignIn(t *testing.T) {
	x, tokens := newConsole(t)
	for _, test := range []struct {
		name, body string
		headers    []string
		want       int
	}{
		{"a wrong token", `{"token":"nobody-has-this-token"}`, fromConsole, 401},
		{"no token", `{}`, fromConsole, 401},
		{"a service's token", `{"token":"a-service-token"}`, fromConsole, 403},
		{"another field", `{"token":"` + operatorToken + `","role":"operator"}`, fromConsole, 400},
		{"another site", `{"token":"` + operatorToken + `"}`, append(slices.Clone(fromConsole), "Origin", "https://evil.example"), 403},
		{"the portal's origin", `{"token":"` + operatorToken + `"}`, append(slices.Clone(fromConsole), "Origin", portalURL), 403},
		{"no page", `{"token":"` + operatorToken + `"}`, nil, 403},
	} {
		answer := x.do(t, "POST", "/console/api/session", test.body, test.headers...)
		var text strings.Builder
		if err := json.NewEncoder(&text).Encode(answer.Header); err != nil {
			t.Fatal(err)
		}
		if answer.Status != test.want || len(answer.Cookies) > 0 || strings.Contains(text.String(), operatorToken) {
			t.Errorf("%s: %d, %d cookies, want %d and none", test.name, answer.Status, len(answer.Cookies), test.want)
		}
	}
	own := x.signIn(t)
	var shown struct{ Operator string }
	if err := json.NewDecoder(x.do(t, "GET", "/console/api/session", "", own...).Body).Decode(&shown); err != nil || shown.Operator != "olga" {
		t.Errorf("signed in as %q, %v", shown.Operator, err)
	}
	other := x.signIn(t)
	if answer := x.do(t, "DELETE", "/console/api/session", "", own...); answer.Status != 204 || answer.Cookies[0].MaxAge >= 0 {
		t.Errorf("sign out: %d %v", answer.Status, answer.Cookies)
	}
	if answer := x.do(t, "GET", "/console/api/session", "", own...); answer.Status != 401 {
		t.Errorf("after the end: %d, want 401", answer.Status)
	}
	if answer := x.do(t, "GET", "/console/api/session", "", other...); answer.Status != 200 {
		t.Errorf("the other session: %d, want 200", answer.Status)
	}
	tokens.mu.Lock()
	tokens.gone = true
	tokens.mu.Unlock()
	if answer := x.do(t, "GET", "/console/api/session", "", other...); answer.Status != 401 {
		t.Errorf("once the token is removed: %d, want 401", answer.Status)
	}
}

// Guesses from one address are refused before they are compared.
func TestConsoleLimitsSignIns(t *testing.T) {
	x, _ := newConsole(t)
	refused := 0
	for range 20 {
		answer := x.do(t, "POST", "/console/api/session", `{"token":"a-guess"}`, fromConsole...)
		if answer.Status == http.StatusTooManyRequests && answer.Header.Get("Retry-After") != "" {
			refused++
		}
	}
	if refused < 5 {
		t.Errorf("%d of 20 guesses were refused with 429, want 5 or more", refused)
	}
	if answer := x.do(t, "POST", "/console/api/session", `{"token":"`+operatorToken+`"}`, fromConsole...); answer.Status != http.StatusTooManyRequests {
		t.Errorf("a token after them: %d, want 429", answer.Status)
	}
}

// What the console serves needs its own session: neither none, nor the portal's, nor a token will do. The portal takes no
// session of the console.
func TestConsoleSessionsAreApart(t *testing.T) {
	x, _ := newConsole(t)
	customer := x.session(t, request("org-1", "", "ann", allScopes))
	i := slices.Index(customer, "Cookie")
	secretOf := strings.TrimPrefix(customer[i+1], "switchyard_portal=")
	operator := x.signIn(t)
	ofOperator := strings.TrimPrefix(operator[len(operator)-1], "switchyard_console=")
	for _, path := range control.ConsoleRoutes(x.table) {
		method, path, _ := strings.Cut(path, " ")
		for name, headers := range map[string][]string{
			"none":                 fromConsole,
			"the portal's":         append(slices.Clone(fromConsole), "Cookie", "switchyard_console="+secretOf),
			"the portal's cookie":  append(slices.Clone(fromConsole), "Cookie", "switchyard_portal="+secretOf),
			"a token":              append(slices.Clone(fromConsole), "Authorization", "Bearer "+operatorToken),
			"forged":               append(slices.Clone(fromConsole), "Cookie", "switchyard_console="+strings.Repeat("A", 43)),
			"too short to be true": append(slices.Clone(fromConsole), "Cookie", "switchyard_console=A"),
		} {
			if answer := x.do(t, method, path, "{}", headers...); answer.Status != 401 {
				t.Errorf("%s %s with the session: %s: %d, want 401", method, path, name, answer.Status)
			}
		}
		foreign := append(slices.Clone(operator), "Sec-Fetch-Site", "cross-site")
		if answer := x.do(t, method, path, "{}", foreign...); answer.Status != 403 {
			t.Errorf("%s %s from another site: %d, want 403", method, path, answer.Status)
		}
	}
	back := []string{"Origin", portalURL, "X-Switchyard-Portal", "1", "Cookie", "switchyard_portal=" + ofOperator}
	if answer := x.do(t, "GET", "/portal/api/session", "", back...); answer.Status != 401 {
		t.Errorf("a session of the console in the portal: %d, want 401", answer.Status)
	}
	if len(x.calls) > 0 {
		t.Errorf("%d calls reached a service", len(x.calls))
	}
}

// An operator acts for the organization in the path, the owner and the user of the headers; the audit names the operator,
// and the organization's usage counts nothing.
func TestConsoleActsForOrganizations(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderOwner, "ada", caller.HeaderUser, "ann", caller.HeaderOrganization, "another", "Authorization", "Bearer nothing")
	for path, want := range map[string]int{
		"GET /product/v1/webhooks/endpoints?owner_id=other&organization_id=other": 200,
		"POST /product/v1/webhooks/deliveries/d1/resend":                          200,
		"GET /product/v1/notifications/inbox?user_id=other":                       200,
		"PUT /product/v1/notifications/inbox/read-all":                            403,
		"POST /product/v1/ai/chat":                                                403,
		"POST /product/v1/notifications/send":                                     403,
	} {
		x.calls = nil
		method, path, _ := strings.Cut(path, " ")
		if answer := x.do(t, method, "/console/api/organizations/org%2F1"+path, "{}", own...); answer.Status != want {
			t.Errorf("%s %s: %d, want %d", method, path, answer.Status, want)
			continue
		}
		if want != 200 {
			continue
		}
		if len(x.calls) != 1 || x.calls[0].organization != "org/1" || x.calls[0].key != "console" || x.calls[0].owner != "ada" ||
			x.calls[0].user != "ann" || strings.Contains(x.calls[0].target, "other") {
			t.Errorf("%s %s: called as %+v", method, path, x.calls)
		}
	}
	for _, organization := range []string{"a%20b", "swy_live_" + strings.Repeat("aB3", 14)} {
		if answer := x.do(t, "GET", "/console/api/organizations/"+organization+"/product/v1/webhooks/endpoints", "", own...); answer.Status != 400 {
			t.Errorf("organization %.20s: %d, want 400", organization, answer.Status)
		}
	}
	if sum, err := x.usage.Sum(t.Context(), meterOf("org/1")); err != nil || len(sum) != 0 {
		t.Errorf("usage %v, %v, want none", sum, err)
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Organization: "org/1", Limit: 10})
	if err != nil || len(entries) != 4 { // the three that were refused as well
		t.Fatalf("audit %v, %v", entries, err)
	}
	resent := slices.ContainsFunc(entries, func(e apikey.Entry) bool {
		return e.Actor.Name == "olga" && e.Action == console.ActionCall && e.Details["id"] == "d1" &&
			e.Details["operation"] == "POST /product/v1/webhooks/deliveries/{id}/resend"
	})
	if !resent {
		t.Errorf("the audit lacks the resend by olga: %v", entries)
	}
}

// A decision on an approval is the signed-in operator's, whatever the page says, and for no user; so is the audit entry of
// a budget.
func TestConsoleDecidesAsOperator(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderUser, "ann")
	const at = "/console/api/organizations/acme/product/v1/ai/approvals"
	for _, tt := range []struct {
		path, body string
		status     int
		sent       string
	}{
		{"/a1/approve", `{}`, 200, `{"decided_by":"olga","reason":""}`},
		{"/a1/approve", ``, 200, `{"decided_by":"olga","reason":""}`},
		{"/a1/deny", `{"reason":"too \"much\""}`, 200, `{"decided_by":"olga","reason":"too \"much\""}`},
		{"/a1/approve", `{"decided_by":"ada"}`, 400, ""},
		{"/a1/approve", `{"organization_id":"other"}`, 400, ""},
		{"/a1/deny", `{"reason":7}`, 400, ""},
		{"/a1/deny", `[]`, 400, ""},
		{"", `{"tool":"t","requested_by":"olga"}`, 403, ""}, // to ask is for those who execute
	} {
		x.calls = nil
		answer := x.do(t, "POST", at+tt.path, tt.body, own...)
		if answer.Status != tt.status {
			t.Errorf("%s %s: %d, want %d", tt.path, tt.body, answer.Status, tt.status)
		}
		if tt.sent == "" {
			if len(x.calls) != 0 {
				t.Errorf("%s %s: sent %+v", tt.path, tt.body, x.calls)
			}
			continue
		}
		if len(x.calls) != 1 || x.calls[0].body != tt.sent || x.calls[0].user != "" || x.calls[0].organization != "acme" {
			t.Errorf("%s %s: sent %+v, want %s", tt.path, tt.body, x.calls, tt.sent)
		}
	}
	if answer := x.do(t, "GET", at+"?status=pending", "", own...); answer.Status != 200 {
		t.Errorf("the approvals: %d", answer.Status)
	}
	const budget = "/console/gateway/v1/admin/orgs/acme/budget"
	x.calls = nil
	if answer := x.do(t, "PUT", budget, `{"budget_ceiling_cents":100}`, own...); answer.Status != 200 || len(x.calls) != 1 {
		t.Errorf("the budget: %d, %d calls", answer.Status, len(x.calls))
	}
	for _, foreign := range []string{"a%20b", "swy_live_" + strings.Repeat("aB3", 14)} {
		if answer := x.do(t, "PUT", strings.Replace(budget, "acme", foreign, 1), `{}`, own...); answer.Status != 400 {
			t.Errorf("the budget of %.20s: %d, want 400", foreign, answer.Status)
		}
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Organization: "acme", Limit: 20})
	if err != nil || len(entries) == 0 || entries[0].Actor.Name != "olga" || entries[0].Details["operation"] != "PUT /v1/admin/orgs/{organization}/budget" {
		t.Errorf("audit %v, %v", entries, err)
	}
}

// The operators' operations have the same answers as with a token, under the operator's name.
func TestConsoleOperations(t *testing.T) {
	x, _ := newConsole(t)
	own := x.signIn(t)
	var key control.Key
	made := x.do(t, "POST", "/console/api/admin/v1/keys", `{"organization_id":"acme","product":"webhooks","permissions":["read"],"name":"n"}`, own...)
	if err := json.NewDecoder(made.Body).Decode(&key); err != nil || made.Status != 201 || key.Key == "" {
		t.Fatalf("create: %d, %v", made.Status, err)
	}
	for _, organization := range []string{"zeta", "beta"} {
		x.do(t, "POST", "/console/api/admin/v1/keys", `{"organization_id":"`+organization+`","product":"webhooks","permissions":["read"]}`, own...)
	}
	x.do(t, "PUT", "/console/api/admin/v1/plans/basic", `{"limits":[]}`, own...)
	x.do(t, "PUT", "/console/api/admin/v1/organizations/acme/plan", `{"plan":"basic"}`, own...)
	var names []string
	for next := ""; ; {
		var page struct {
			Organizations []struct {
				ID   string `json:"organization_id"`
				Plan string `json:"plan"`
			}
			NextCursor string `json:"next_cursor"`
		}
		if err := json.NewDecoder(x.do(t, "GET", "/console/api/organizations?limit=2&cursor="+next, "", own...).Body).Decode(&page); err != nil {
			t.Fatal(err)
		}
		for _, o := range page.Organizations {
			names = append(names, o.ID+"="+o.Plan)
		}
		if next = page.NextCursor; next == "" {
			break
		}
	}
	if want := []string{"acme=basic", "beta=", "zeta="}; !slices.Equal(names, want) {
		t.Errorf("organizations %v, want %v", names, want)
	}
	if answer := x.do(t, "DELETE", "/console/api/admin/v1/keys/"+key.ID, "", own...); answer.Status != 204 {
		t.Errorf("revoke: %d", answer.Status)
	}
	entries, err := x.keys.Audit(t.Context(), apikey.AuditQuery{Key: key.ID, Limit: 10})
	if err != nil || len(entries) != 2 || entries[0].Actor.Name != "olga" {
		t.Errorf("audit %v, %v", entries, err)
	}
}

// The services' lists are relayed in no organization's place, with the filters that they have and nothing else.
func TestConsoleReadsEveryOrganization(t *testing.T) {
	x, _ := newConsole(t)
	own := append(x.signIn(t), caller.HeaderOwner, "ada", caller.HeaderUser, "ann", caller.HeaderOrganization, "another")
	for path, want := range map[string]string{
		"/webhooks/circuits?all_organizations=true&state=open&state=half_open&secret=x": "http://webhook-egress/v1/circuits?all_organizations=true&state=open&state=half_open",
		"/webhooks/circuits?organization_id=acme&limit=7&cursor=c":                      "http://webhook-egress/v1/circuits?cursor=c&limit=7&organization_id=acme",
		"/notifications/sends?all_organizations=true&status=failed&channel=email&x=y":   "http://notify/v1/notifications/sends?all_organizations=true&channel=email&status=failed",
		"/notifications/sends?organization_id=acme&created_after=a&created_before=b":    "http://notify/v1/notifications/sends?created_after=a&created_before=b&organization_id=acme",
		"/notifications/registrations?all_organizations=true":                           "http://notify/v1/push/registrations?all_organizations=true",
	} {
		x.calls = nil
		if answer := x.do(t, "GET", "/console/api"+path, "", own...); answer.Status != 200 {
			t.Errorf("%s: %d, want 200", path, answer.Status)
		}
		if want := (relayed{key: "console", target: want}); len(x.calls) != 1 || x.calls[0] != want {
			t.Errorf("%s: called as %+v, want %+v", path, x.calls, want)
		}
	}
	if answer := x.do(t, "POST", "/console/api/notifications/sends", "{}", own...); answer.Status != 405 {
		t.Errorf("a send in no organization's place: %d, want 405", answer.Status)
	}
}

func TestConsolePages(t *testing.T) {
	x, _ := newConsole(t)
	for _, path := range []string{"/", "/console"} {
		if answer := x.do(t, "GET", path, ""); answer.Status != 303 || answer.Header.Get("Location") != "/console/" {
			t.Errorf("%s: %d %s", path, answer.Status, answer.Header.Get("Location"))
		}
	}
	for _, path := range []string{"/console/", "/console/console.js", "/console/page.js", "/console/portal.css", "/console/text/de.json", "/console/icon.svg"} {
		answer := x.do(t, "GET", path, "")
		policy := answer.Header.Get("Content-Security-Policy")
		if answer.Status != 200 || !strings.Contains(policy, "default-src 'none'") || strings.Contains(policy, "unsafe") {
			t.Errorf("%s: %d with policy %q", path, answer.Status, policy)
		}
	}
	for _, path := range []string{"/console/main.js", "/console/worker.js", "/console/nothing", "/console/api/nothing", "/console/gateway/v1/llm/chat"} {
		if answer := x.do(t, "GET", path, ""); answer.Status != 404 {
			t.Errorf("%s: %d, want 404", path, answer.Status)
		}
	}
}

func meterOf(organization string) meter.Query {
	return meter.Query{Organization: organization, To: time.Now().Add(time.Hour), Limit: 10}
}
