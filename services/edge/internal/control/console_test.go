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

	metricnoop "go.opentelemetry.io/otel/metric/noop"
	tracenoop "go.opentelemetry.io/otel/trace/noop"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/console"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/credit"
	"switchyard.dev/services/edge/internal/limit"
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
	x := &portalWorld{usage: postgres.NewUsage(pool), pool: pool}
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
		Alerts: alert.NewRules(postgres.NewAlerts(pool)), Approvers: approver.NewGroups(postgres.NewApprovers(pool)), Windows: postgres.NewThresholds(pool),
		Portal: &control.Portal{
			Sessions: portal.NewSessions(postgres.NewPortal(pool), x.table), URL: parse(t, portalURL), Table: x.table, Upstreams: upstreams,
			Relay: x, Limiter: limit.New(nil),
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
