package control_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"switchyard.dev/services/edge/internal/apikey"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/control"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/caller"
	"switchyard.dev/services/platform/secret"
	"switchyard.dev/services/platform/testkit"
	"switchyard.dev/services/platform/testkit/growth"
)

var annsToken, bobsToken = strings.Repeat("a1", 32), strings.Repeat("b2", 32)

// approvals is the gateway with one approval, of which the first decision counts.
type approvals struct {
	mu      sync.Mutex
	shown   decision.Decision
	by      string // token
	choices []decision.Choice
	err     error // of every call
	calls   int
}

func newApprovals() *approvals {
	return &approvals{shown: decision.Decision{
		Ref: "apr_1", Status: "pending", Approver: "ann", Tool: "deploy", Version: "v1", Arguments: json.RawMessage(`{"env":"prod"}`),
		ExpiresAt: time.Now().Add(time.Hour), Call: &decision.Call{Proof: "page"},
	}}
}

func (g *approvals) Show(_ context.Context, token string) (*decision.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	d := g.shown
	return &d, g.check(token)
}

func (g *approvals) check(token string) error {
	if g.err != nil {
		return g.err
	}
	if token != annsToken && token != bobsToken {
		return &decision.RefusalError{Status: 404, Reason: "not_found", Text: "decision not found"}
	}
	return nil
}

func (g *approvals) Decide(_ context.Context, token string, c decision.Choice) (*decision.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.calls++
	if err := g.check(token); err != nil {
		return nil, err
	}
	status := map[string]string{"approve": "approved", "deny": "denied"}[c.Decision]
	switch {
	case g.shown.Status == "pending" && c.Decision == "approve" && c.Version != g.shown.Version:
		return nil, &decision.RefusalError{Status: 409, Reason: "display_changed", Text: "read it again"}
	case g.shown.Status == "pending" && c.Decision == "approve" && g.shown.Call.Proof == "page" && c.Proof != "page":
		return nil, &decision.RefusalError{Status: 403, Reason: "proof_required", Text: "decide on the page"}
	case g.shown.Status == "pending":
		by, at := map[string]string{annsToken: "ann", bobsToken: "bob"}[token], time.Now()
		g.shown.Status, g.shown.DecidedBy, g.shown.DecidedAt, g.by = status, &by, &at, token
		g.choices = append(g.choices, c)
	case g.shown.Status != status || g.by != token:
		return nil, &decision.RefusalError{Status: 409, Reason: "approval_decided", Text: "decided at noon"}
	}
	d := g.shown
	return &d, nil
}

// page is a control with nothing but the page of decisions, with what it logs, traces and measures.
type page struct {
	http.Handler

	gateway   *approvals
	members   members
	nonces    *decision.Nonces
	decisions *control.Decisions
	logs      bytes.Buffer
	spans     *tracetest.SpanRecorder
	metrics   *sdkmetric.ManualReader
}

// keyNames are the names of keys by id; the key key_other is another organization's.
type keyNames map[string]string

func (k keyNames) Get(_ context.Context, id string) (apikey.Key, error) {
	if k[id] == "" {
		return apikey.Key{}, apierr.NotFound("key")
	}
	organization := "acme"
	if id == "key_other" {
		organization = "other"
	}
	return apikey.Key{ID: id, Name: k[id], Organization: organization}, nil
}

// members holds the members of the group that decides.
type members map[string]bool

func (m members) Check(_ context.Context, _, _, user string) error {
	if !m[user] {
		return approver.ErrNotApprover
	}
	return nil
}

// persons decides on the approvals for identified people, of whom only ann may.
type persons struct{ *approvals }

func (g persons) Show(ctx context.Context, who approver.Person, ref string) (*decision.Decision, error) {
	return g.Decide(ctx, who, ref, decision.Choice{})
}

func (g persons) Decide(_ context.Context, who approver.Person, ref string, c decision.Choice) (*decision.Decision, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if who.User != "ann" {
		return nil, approver.ErrNotApprover
	}
	d := g.shown
	d.Ref, d.Channel, d.Organization = ref, who.Way, who.Organization
	if c.Decision != "" {
		g.choices = append(g.choices, c)
		d.Status = map[string]string{"approve": "approved", "deny": "denied"}[c.Decision]
	}
	return &d, nil
}

func newPage(t *testing.T) *page {
	t.Helper()
	x := &page{gateway: newApprovals(), members: members{"ann": true}, spans: tracetest.NewSpanRecorder(), metrics: sdkmetric.NewManualReader()}
	var err error
	if x.nonces, err = decision.NewNonces(secret.New(strings.Repeat("p", 32))); err != nil {
		t.Fatal(err)
	}
	x.decisions = control.NewDecisions(x.gateway, x.members, persons{x.gateway}, keyNames{"key_agent": "the nightly agent", "key_other": "theirs"}, x.nonces)
	x.Handler, err = control.New(control.Options{
		Log: slog.New(slog.NewJSONHandler(&x.logs, &slog.HandlerOptions{Level: slog.LevelDebug})), Decisions: x.decisions,
		Tokens: testkit.Tokens(t, testkit.Token{Name: "edge", Role: caller.RoleService, Text: "svc"}),
		Tracer: trace.NewTracerProvider(trace.WithSpanProcessor(x.spans)).Tracer(""),
		Meter:  sdkmetric.NewMeterProvider(sdkmetric.WithReader(x.metrics)).Meter(""),
	})
	if err != nil {
		t.Fatal(err)
	}
	return x
}

// do makes a request with headers, pairs of name and value. A body is a form unless it begins like JSON.
func (x *page) do(t *testing.T, method, path, body string, headers ...string) *httptest.ResponseRecorder {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if strings.HasPrefix(body, "{") {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	w := httptest.NewRecorder()
	x.ServeHTTP(w, r)
	return w
}

var nonceOf = regexp.MustCompile(`name="nonce" value="([^"]+)"`)

// open opens the page and returns the form that a person sends with a decision.
func (x *page) open(t *testing.T, token, choice, reason string) string {
	t.Helper()
	w := x.do(t, "GET", "/decisions/"+token, "")
	nonce := nonceOf.FindStringSubmatch(w.Body.String())
	if w.Code != 200 || nonce == nil {
		t.Fatalf("the page: %d %s", w.Code, w.Body)
	}
	return url.Values{"nonce": {nonce[1]}, "display_version": {"v1"}, "decision": {choice}, "reason": {reason}}.Encode()
}

// The page names the key that asks by its name, and not by its id; what is no key's id stays.
func TestPageNamesKeys(t *testing.T) {
	for asker, want := range map[string]string{
		"agent": "<dd>agent</dd>", "key_agent": "<dd>the key the nightly agent</dd>", "key_other": "", "key_unknown": "",
	} {
		x := newPage(t)
		x.gateway.shown.Organization, x.gateway.shown.RequestedBy = "acme", asker
		page := x.do(t, "GET", "/decisions/"+annsToken, "").Body.String()
		if want != "" && !strings.Contains(page, want) || strings.Contains(page, "Asked for by") != (want != "") || strings.Contains(page, "key_") {
			t.Errorf("%s: the page has not %q: %s", asker, want, page)
		}
	}
}

// Programs that look for harm in mail open the link in each way that they know; then the person decides.
func TestPageIsSafeFromScanners(t *testing.T) {
	x := newPage(t)
	for i := range 50 {
		method := []string{"GET", "HEAD", "OPTIONS"}[i%3]
		if w := x.do(t, method, "/decisions/"+annsToken, ""); w.Code != map[string]int{"GET": 200, "HEAD": 200, "OPTIONS": 405}[method] {
			t.Fatalf("%s: %d %s", method, w.Code, w.Body)
		}
		for _, method := range []string{"GET", "HEAD", "OPTIONS", "PUT", "DELETE"} {
			x.do(t, method, "/v1/decisions/"+annsToken, "")
		}
	}
	x.do(t, "POST", "/decisions/"+annsToken, "")
	x.do(t, "POST", "/decisions/"+annsToken, "decision=approve&display_version=v1&reason=&nonce=")
	if len(x.gateway.choices) != 0 {
		t.Fatalf("decided by a scanner: %+v", x.gateway.choices)
	}
	w := x.do(t, "POST", "/decisions/"+annsToken, x.open(t, annsToken, "approve", "looks good"), "Sec-Fetch-Site", "same-origin")
	want := decision.Choice{Decision: "approve", Reason: "looks good", Version: "v1", Proof: "page"}
	if w.Code != 200 || !strings.Contains(w.Body.String(), "It is approved by ann") || len(x.gateway.choices) != 1 || x.gateway.choices[0] != want {
		t.Errorf("the person: %d %s; decisions %+v", w.Code, w.Body, x.gateway.choices)
	}
}

func TestPageRefuses(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(form url.Values) []string // returns headers
		token  string
		status int
		text   string
	}{
		"no nonce":            {func(f url.Values) []string { f.Del("nonce"); return nil }, annsToken, 400, "not the page"},
		"a forged nonce":      {func(f url.Values) []string { f.Set("nonce", strings.Repeat("A", 75)); return nil }, annsToken, 403, "Nothing was decided"},
		"another's nonce":     {func(url.Values) []string { return nil }, bobsToken, 403, "Nothing was decided"},
		"another version":     {func(f url.Values) []string { f.Set("display_version", "v2"); return nil }, annsToken, 403, "Nothing was decided"},
		"another decision":    {func(f url.Values) []string { f.Set("decision", "always"); return nil }, annsToken, 400, "not the page"},
		"two decisions":       {func(f url.Values) []string { f.Add("decision", "deny"); return nil }, annsToken, 400, "not the page"},
		"another field":       {func(f url.Values) []string { f.Set("proof", "page"); return nil }, annsToken, 400, "not the page"},
		"a long reason":       {func(f url.Values) []string { f.Set("reason", strings.Repeat("x", 1025)); return nil }, annsToken, 400, "not the page"},
		"a long body":         {func(f url.Values) []string { f.Set("reason", strings.Repeat("x", 9000)); return nil }, annsToken, 400, "not the page"},
		"JSON":                {func(url.Values) []string { return []string{"Content-Type", "application/json"} }, annsToken, 400, "not the page"},
		"plain text":          {func(url.Values) []string { return []string{"Content-Type", "text/plain"} }, annsToken, 400, "not the page"},
		"from another site":   {func(url.Values) []string { return []string{"Sec-Fetch-Site", "cross-site"} }, annsToken, 403, "Only the page itself"},
		"from a sibling site": {func(url.Values) []string { return []string{"Sec-Fetch-Site", "same-site"} }, annsToken, 403, "Only the page itself"},
		"a malformed token":   {func(url.Values) []string { return nil }, "canary", 400, "not the page"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newPage(t)
			form, err := url.ParseQuery(x.open(t, annsToken, "approve", ""))
			if err != nil {
				t.Fatal(err)
			}
			headers := tt.change(form)
			w := x.do(t, "POST", "/decisions/"+tt.token, form.Encode(), headers...)
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) || len(x.gateway.choices) != 0 {
				t.Errorf("%d %s, decisions %+v; want %d %s", w.Code, w.Body, x.gateway.choices, tt.status, tt.text)
			}
		})
	}
}

// A form is good for 15 minutes, on each replica.
func TestPageOfAnotherReplica(t *testing.T) {
	x, other := newPage(t), newPage(t)
	other.gateway = x.gateway
	form := url.Values{"nonce": {x.nonces.Make(annsToken, "v1", time.Now().Add(-16*time.Minute))}, "display_version": {"v1"}, "decision": {"approve"}, "reason": {""}}
	w := x.do(t, "POST", "/decisions/"+annsToken, form.Encode())
	if w.Code != 403 || !strings.Contains(w.Body.String(), "open for too long") || !nonceOf.MatchString(w.Body.String()) {
		t.Errorf("too late: %d %s", w.Code, w.Body)
	}
	if w := other.do(t, "POST", "/decisions/"+annsToken, x.open(t, annsToken, "deny", "")); w.Code != 200 {
		t.Errorf("on another replica: %d %s", w.Code, w.Body)
	}
}

// What the gateway answers is a page that says so, with and without a form.
func TestPageOfRefusals(t *testing.T) {
	for name, tt := range map[string]struct {
		err    error
		status int
		text   string
	}{
		"unknown":      {&decision.RefusalError{Status: 404, Reason: "not_found"}, 404, "This link can&#39;t be used"},
		"expired":      {&decision.RefusalError{Status: 410, Reason: "approval_expired"}, 410, "This call has expired"},
		"limited":      {&decision.RefusalError{Status: 429, Reason: "rate_limited", RetryAfter: 7 * time.Second}, 429, "too many requests"},
		"the own call": {&decision.RefusalError{Status: 403, Reason: "reviewer_not_independent"}, 403, "You can&#39;t decide"},
		"away":         {errors.New("no connection"), 502, "is away"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newPage(t)
			form := x.open(t, annsToken, "approve", "")
			x.gateway.err = tt.err
			for _, w := range []*httptest.ResponseRecorder{x.do(t, "GET", "/decisions/"+annsToken, ""), x.do(t, "POST", "/decisions/"+annsToken, form)} {
				if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) || strings.Contains(w.Body.String(), "<form") || w.Header().Get("Content-Security-Policy") == "" {
					t.Errorf("%d %s, want %d %s", w.Code, w.Body, tt.status, tt.text)
				}
				if tt.status == 429 && w.Header().Get("Retry-After") != "7" {
					t.Errorf("Retry-After %q", w.Header().Get("Retry-After"))
				}
			}
		})
	}
	x := newPage(t)
	if w := x.do(t, "GET", "/decisions/canary", ""); w.Code != 404 || x.gateway.calls != 0 || strings.Contains(w.Body.String(), "canary") {
		t.Errorf("a malformed token: %d %s after %d calls", w.Code, w.Body, x.gateway.calls)
	}
}

func TestPageOfWhatHasChanged(t *testing.T) {
	x := newPage(t)
	form := x.open(t, annsToken, "approve", "")
	x.gateway.shown.Version = "v2"
	w := x.do(t, "POST", "/decisions/"+annsToken, form)
	if w.Code != 409 || !strings.Contains(w.Body.String(), "has changed since") || !strings.Contains(w.Body.String(), `value="v2"`) || len(x.gateway.choices) != 0 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// Of decisions that are made at once one counts; the others read which. A repeat of it is answered as it was.
func TestPageOfParallelDecisions(t *testing.T) {
	x := newPage(t)
	forms := map[string]string{annsToken: x.open(t, annsToken, "approve", ""), bobsToken: x.open(t, bobsToken, "deny", "")}
	var mu sync.Mutex
	answers := map[string]int{}
	var group sync.WaitGroup
	for range 10 {
		for token, form := range forms {
			group.Go(func() {
				w := x.do(t, "POST", "/decisions/"+token, form)
				mu.Lock()
				defer mu.Unlock()
				answers[fmt.Sprint(token == x.gateway.by, " ", w.Code)]++
				if !strings.Contains(w.Body.String(), "It is "+x.gateway.shown.Status+" by ") {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
	}
	group.Wait()
	if len(x.gateway.choices) != 1 || answers["true 200"] != 10 || answers["false 409"] != 10 {
		t.Errorf("decisions %+v, answers %v", x.gateway.choices, answers)
	}
}

// A button of a push decides without a page where the gateway allows it, and can't claim that a person has seen the page.
func TestDecideByButton(t *testing.T) {
	for name, tt := range map[string]struct {
		proof, token, body string
		status             int
		text               string
	}{
		"approved":            {"link", annsToken, `{"decision":"approve","display_version":"v1"}`, 200, `{"ref":"apr_1","status":"approved","decided_by":"ann"`},
		"denied":              {"page", annsToken, `{"decision":"deny","reason":"no"}`, 200, `"status":"denied"`},
		"a page is due":       {"page", annsToken, `{"decision":"approve","display_version":"v1"}`, 403, `"error":"proof_required"`},
		"with a proof":        {"page", annsToken, `{"decision":"approve","display_version":"v1","proof":"page"}`, 400, "proof: is not a field"},
		"without a version":   {"link", annsToken, `{"decision":"approve"}`, 409, "display_changed"},
		"an unknown token":    {"link", strings.Repeat("c3", 32), `{"decision":"deny"}`, 404, "not_found"},
		"a malformed token":   {"link", "canary", `{"decision":"deny"}`, 404, "not_found"},
		"another decision":    {"link", annsToken, `{"decision":"maybe"}`, 400, "decision: must be"},
		"a long reason":       {"link", annsToken, `{"decision":"deny","reason":"` + strings.Repeat("x", 1025) + `"}`, 400, "reason: must be"},
		"a long version":      {"link", annsToken, `{"decision":"deny","display_version":"` + strings.Repeat("x", 129) + `"}`, 400, "display_version: must be"},
		"a form":              {"link", annsToken, `decision=deny`, 400, "body: must be"},
		"no body":             {"link", annsToken, ``, 400, "decision: must be"},
		"a proof in the path": {"link", annsToken + "?proof=page", `{"decision":"deny"}`, 200, "denied"},
	} {
		t.Run(name, func(t *testing.T) {
			x := newPage(t)
			x.gateway.shown.Call.Proof = tt.proof
			w := x.do(t, "POST", "/v1/decisions/"+tt.token, tt.body, "Origin", "https://app.example")
			if w.Code != tt.status || !strings.Contains(w.Body.String(), tt.text) || w.Header().Get("Access-Control-Allow-Origin") != "*" || w.Header().Get("Cache-Control") != "no-store" {
				t.Errorf("%d %s %v, want %d %s", w.Code, w.Body, w.Header(), tt.status, tt.text)
			}
			for _, c := range x.gateway.choices {
				if c.Proof != "" {
					t.Errorf("the gateway got the proof %q", c.Proof)
				}
			}
		})
	}
	x := newPage(t)
	if w := x.do(t, "OPTIONS", "/v1/decisions/"+annsToken, ""); w.Code != 204 || w.Header().Get("Access-Control-Allow-Methods") != "POST" || w.Header().Get("Access-Control-Allow-Credentials") != "" {
		t.Errorf("preflight: %d %v", w.Code, w.Header())
	}
	x.gateway.err = errors.New("no connection")
	if w := x.do(t, "POST", "/v1/decisions/"+annsToken, `{"decision":"deny"}`); w.Code != 503 {
		t.Errorf("without the gateway: %d %s", w.Code, w.Body)
	}
}

func TestDecisionsAreLimited(t *testing.T) {
	x := newPage(t)
	for _, path := range []string{"/decisions/", "/v1/decisions/"} {
		limited := 0
		for range 200 {
			if w := x.do(t, "POST", path+annsToken, `{"decision":"maybe"}`); w.Code == 429 && w.Header().Get("Retry-After") != "" {
				limited++
			}
		}
		if limited < 70 {
			t.Errorf("%s: %d of 200 calls with one token are limited", path, limited)
		}
	}
	if w := x.do(t, "GET", "/decisions/"+bobsToken, ""); w.Code != 200 {
		t.Errorf("another token: %d", w.Code)
	}
	misses := 0
	for range 1000 {
		if w := x.do(t, "GET", "/decisions/none", ""); w.Code == 429 {
			misses++
		}
	}
	if misses == 0 {
		t.Error("an address may try tokens without limit")
	}
}

// A token is in no log line, span or metric.
func TestTokensStayUnwritten(t *testing.T) {
	x := newPage(t)
	form := x.open(t, annsToken, "approve", "")
	x.do(t, "POST", "/decisions/"+annsToken, form)
	x.do(t, "POST", "/v1/decisions/"+annsToken, `{"decision":"deny"}`)
	x.do(t, "PUT", "/decisions/"+annsToken, "")
	x.do(t, "POST", "/v1/decisions/"+annsToken+"/x", "")
	x.gateway.err = errors.New("no connection")
	x.do(t, "GET", "/decisions/"+annsToken, "")
	x.do(t, "POST", "/v1/decisions/"+annsToken, `{"decision":"deny"}`)
	var measured metricdata.ResourceMetrics
	if err := x.metrics.Collect(t.Context(), &measured); err != nil {
		t.Fatal(err)
	}
	written := x.logs.String() + fmt.Sprint(measured)
	for _, span := range x.spans.Ended() {
		written += fmt.Sprint(span.Name(), span.Attributes(), span.Events(), span.Status())
	}
	if strings.Contains(written, annsToken[:16]) {
		t.Errorf("a token is in\n%s", written)
	}
	if want := "GET /decisions/{token}"; !strings.Contains(x.logs.String(), want) || x.spans.Ended()[0].Name() != want {
		t.Errorf("logs lack the route %s", want)
	}
}

// unlimited takes the limits of the rate away.
func (x *page) unlimited() *page {
	free := decision.NewRate(1e9, 1e9)
	x.decisions.Reads, x.decisions.Writes, x.decisions.Tokens = free, free, free
	return x
}

func TestPageFormGrowsLinearly(t *testing.T) {
	x := newPage(t).unlimited()
	x.gateway.err = &decision.RefusalError{Status: 404}
	inputs := append(growth.Around("decision=deny&reason=", growth.Text, ""), growth.Number("fields", "decision=deny", "&a#=b", ""))
	growth.Linear(t, growth.EachText(inputs, func(body string) { x.do(t, "POST", "/decisions/"+annsToken, body) })...)
}

func TestButtonsBodyGrowsLinearly(t *testing.T) {
	x := newPage(t).unlimited()
	growth.Linear(t, growth.EachText(growth.Around(`{"decision":`, growth.JSON, "}"), func(body string) { x.do(t, "POST", "/v1/decisions/"+annsToken, body) })...)
}
