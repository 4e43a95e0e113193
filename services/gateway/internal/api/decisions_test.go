package api_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/audit"
	"switchyard.dev/services/gateway/internal/postgres"
)

const decisionsPath = "/v1/decisions"

// exactly asks for the approval of a tool's exact call, as package toolcall does, and returns it.
func (b *bench) exactly(tb testing.TB, arguments string, page, standing bool) approval.Approval {
	tb.Helper()
	calls := b.calls(tb)
	a, err := calls.Require(tb.Context(), exactCall(arguments, page, standing))
	if err != nil {
		tb.Fatal(err)
	}
	return a
}

func (b *bench) calls(tb testing.TB) *approval.Calls {
	tb.Helper()
	return &approval.Calls{
		Store: postgres.NewApprovals(b.control), Replica: "one", TTL: time.Hour, Conditions: expressions(tb), Redactor: b.policies.policy.Redactor,
	}
}

func exactCall(arguments string, page, standing bool) *approval.Exact {
	return &approval.Exact{
		Organization: "acme", Run: "r1", Server: "ci", Tool: "deploy", Definition: [32]byte{1}, RequestedBy: "agent", User: "eve",
		Arguments: []byte(arguments), Policy: "p1", Rule: "deployments", Approvers: "ops", Page: page, StandingAllowed: standing, Price: 5e9, ReviewedBy: "rita",
	}
}

// tokenOf mints a token of an approver.
func (b *bench) tokenOf(tb testing.TB, ref, approver string) string {
	tb.Helper()
	made := b.post(tb, approvalsPath+"/"+ref+"/tokens", `{"approver":"`+approver+`","channel":"email"}`).fields(tb, http.StatusCreated)
	return made["token"].(string)
}

// shown returns what a token decides.
func (b *bench) shown(tb testing.TB, token string) map[string]any {
	tb.Helper()
	return b.byToken(tb, http.MethodGet, token, "").fields(tb, http.StatusOK)
}

// byToken makes a service's request with a decision token, which names no organization.
func (b *bench) byToken(tb testing.TB, verb, token, body string) answer {
	tb.Helper()
	return b.say(tb, verb, decisionsPath+"/"+token, body, "X-Organization-Id", "")
}

// The gateway knows no groups of approvers: a token alone, which a former member may still have, shows and decides nothing.
func TestTokenAloneDecidesNothing(t *testing.T) {
	b := setup(t)
	token := b.tokenOf(t, b.exactly(t, `{}`, false, true).Ref, "ada")
	for _, tt := range []struct {
		authorization, reason string
		status                int
	}{{"", "unauthenticated", 401}, {"Bearer " + token, "unauthenticated", 401}, {"Bearer sup", "forbidden", 403}} {
		for _, verb := range []string{http.MethodGet, http.MethodPost} {
			b.say(t, verb, decisionsPath+"/"+token, `{"decision":"deny"}`, "Authorization", tt.authorization).refused(t, tt.status, tt.reason, "")
		}
	}
	has(t, b.shown(t, token), map[string]any{"status": "pending"})
}

func TestDecisionByToken(t *testing.T) {
	b := setup(t)
	a := b.exactly(t, `{"env":"prod","mail":"ann@acme.example"}`, true, true)
	token := b.tokenOf(t, a.Ref, "ada")
	before := b.shown(t, token)
	has(t, before, map[string]any{
		"ref": a.Ref, "status": "pending", "approver": "ada", "channel": "email", "server_id": "ci", "tool": "deploy", "requested_by": "agent", "run_id": "r1",
	})
	has(t, before["call"].(map[string]any), map[string]any{
		"rule": "deployments", "approvers": "ops", "proof": "page", "price_cents": 0.5, "definition_reviewed_by": "rita", "policy_version": "p1", "state": "waiting",
	})
	if arguments, _ := json.Marshal(before["arguments"]); string(arguments) != `{"env":"prod","mail":"[email]"}` {
		t.Errorf("arguments %s", arguments)
	}
	version := before["display_version"].(string)
	for name, test := range map[string]struct {
		body           string
		status         int
		reason, saying string
	}{
		"nothing":              {`{}`, 400, "invalid_request", "decision"},
		"another decision":     {`{"decision":"maybe"}`, 400, "invalid_request", "decision"},
		"without the display":  {`{"decision":"approve","proof":"page"}`, 400, "invalid_request", "display_version"},
		"for another display":  {`{"decision":"approve","proof":"page","display_version":"x"}`, 409, "display_changed", "display_version"},
		"denied, another one":  {`{"decision":"deny","display_version":"x"}`, 409, "display_changed", "display_version"},
		"from a message":       {`{"decision":"approve","display_version":"` + version + `"}`, 403, "proof_required", "page"},
		"an unknown field":     {`{"decision":"deny","organization_id":"acme"}`, 400, "invalid_request", "organization_id"},
		"a reason with a zero": {`{"decision":"deny","reason":"\u0000"}`, 400, "invalid_request", "reason"},
	} {
		t.Run(name, func(t *testing.T) {
			b.byToken(t, http.MethodPost, token, test.body).refused(t, test.status, test.reason, test.saying)
		})
	}
	yes := `{"decision":"approve","reason":"fine","proof":"page","display_version":"` + version + `"}`
	decided := b.byToken(t, http.MethodPost, token, yes)
	has(t, decided.fields(t, http.StatusOK), map[string]any{
		"status": "approved", "decided_by": "ada", "decided_via": "email", "reason": "fine", "display_version": version,
	})
	if again := b.byToken(t, http.MethodPost, token, yes); again.status != http.StatusOK || again.body != decided.body {
		t.Errorf("again: %d %s", again.status, again.body)
	}
	b.byToken(t, http.MethodPost, token, `{"decision":"deny"}`).refused(t, 409, "approval_decided", "approved at 2")
	has(t, b.shown(t, token), map[string]any{"status": "approved", "decided_by": "ada"})
	entries := b.trail(t, "subject="+a.Ref)
	has(t, entries[0], map[string]any{"action": "approval.approve", "actor": "ada", "actor_role": "approver", "reason": "fine", "organization_id": "acme"})
	if len(entries) != 3 || entries[1]["action"] != "approval.token" || entries[2]["action"] != "approval.create" {
		t.Errorf("audit %v", entries)
	}
	if log, trail := b.log.String(), b.trail(t, "subject="+a.Ref); strings.Contains(log, token) || strings.Contains(mustText(t, trail), token) {
		t.Error("the token is in the log or in the audit")
	}
	events := b.houseEvents(t)
	if strings.Contains(events, "prod") || strings.Contains(events, token) || !strings.Contains(events, `"call_digest": "`+before["call"].(map[string]any)["call_digest"].(string)) {
		t.Errorf("events %s", events)
	}
}

func mustText(t *testing.T, value any) string {
	t.Helper()
	text, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// houseEvents returns the data of all events.
func (b *bench) houseEvents(t *testing.T) (all string) {
	t.Helper()
	if err := b.pool.QueryRow(t.Context(), "SELECT string_agg(data::text, ' ') FROM house_event").Scan(&all); err != nil {
		t.Fatal(err)
	}
	return all
}

// The principal that asked, under any of the names that are known, gets no token and decides nothing.
func TestAskersDoNotDecide(t *testing.T) {
	b := setup(t)
	a := b.exactly(t, `{}`, false, true)
	for _, asker := range []string{"agent", "AGENT", "Eve"} {
		b.post(t, approvalsPath+"/"+a.Ref+"/tokens", `{"approver":"`+asker+`","channel":"email"}`).refused(t, 403, "reviewer_not_independent", "another principal")
		b.post(t, approvalsPath+"/"+a.Ref+"/approve", `{"decided_by":"`+asker+`"}`).refused(t, 403, "reviewer_not_independent", "another principal")
	}
	b.post(t, approvalsPath+"/"+a.Ref+"/approve", `{"decided_by":"ada"}`, "X-User-Id", "eve").refused(t, 403, "reviewer_not_independent", "another principal")
	b.post(t, "/v1/runs/mint", `{"run_id":"r7","initiated_by":"ivy","ttl_seconds":600}`).fields(t, http.StatusCreated)
	made := b.post(t, approvalsPath, `{"tool":"deploy","requested_by":"agent","run_id":"r7"}`, "X-User-Id", "uma").fields(t, http.StatusCreated)
	b.post(t, "/v1/runs/mint", `{"run_id":"r8","parent_run_id":"r7","initiated_by":"bot"}`).fields(t, http.StatusCreated)
	below := b.post(t, approvalsPath, `{"tool":"deploy","requested_by":"agent","run_id":"r8"}`).fields(t, http.StatusCreated)
	for _, asker := range []string{"ivy", "bot"} {
		b.post(t, approvalsPath+"/"+below["ref"].(string)+"/approve", `{"decided_by":"`+asker+`"}`).refused(t, 403, "reviewer_not_independent", "another principal")
	}
	for _, asker := range []string{"ivy", "uma"} {
		b.post(t, approvalsPath+"/"+made["ref"].(string)+"/approve", `{"decided_by":"`+asker+`"}`).refused(t, 403, "reviewer_not_independent", "another principal")
	}
}

// Tokens of other texts, forms and lengths are unknown, and beyond a limit refused; a good one is still served then.
func TestUnknownTokens(t *testing.T) {
	b := setup(t)
	a := b.exactly(t, `{}`, false, true)
	token := b.tokenOf(t, a.Ref, "ada")
	for _, other := range []string{strings.Repeat("0", 64), "x", strings.ToUpper(token) + "0", token[1:], "..", strings.Repeat("%20", 20), "swy_live_" + token} {
		for _, verb := range []string{http.MethodGet, http.MethodPost} {
			got := b.byToken(t, verb, other, `{"decision":"deny"}`)
			if got.status != http.StatusNotFound && got.status != http.StatusMovedPermanently && got.status != http.StatusBadRequest {
				t.Errorf("%s %q: %d %s", verb, other, got.status, got.body)
			}
		}
	}
	b.byToken(t, http.MethodGet, strings.Repeat("a", 300), "").refused(t, 400, "invalid_request", "token")
	limited := false
	for i := 0; i < 70 && !limited; i++ {
		limited = b.byToken(t, http.MethodGet, strings.Repeat("1", 64), "").status == http.StatusTooManyRequests
	}
	if !limited {
		t.Error("tokens may be guessed without a limit")
	}
	b.shown(t, token)
	for _, verb := range []string{http.MethodHead, http.MethodOptions, http.MethodPut, http.MethodDelete} {
		if got := b.byToken(t, verb, token, ""); got.status == http.StatusOK && verb != http.MethodHead {
			t.Errorf("%s: %d", verb, got.status)
		}
	}
	has(t, b.shown(t, token), map[string]any{"status": "pending"})
	if strings.Contains(b.log.String(), token) {
		t.Error("the token is in the log")
	}
}

// A token that is used again and again is refused for a while.
func TestTokenIsLimited(t *testing.T) {
	b := setup(t)
	token := b.tokenOf(t, b.exactly(t, `{}`, false, true).Ref, "ada")
	for range 60 {
		b.shown(t, token)
	}
	b.byToken(t, http.MethodGet, token, "").refused(t, 429, "rate_limited", "too many")
}

func TestTokensAreBounded(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, "")
	for range approval.MaxTokens {
		b.tokenOf(t, ref, "ada")
	}
	b.post(t, approvalsPath+"/"+ref+"/tokens", `{"approver":"ada","channel":"email"}`).refused(t, 409, "tokens_exhausted", "20")
	last := b.tokenOf(t, ref, "bob")
	b.post(t, approvalsPath+"/"+ref+"/approve", `{"decided_by":"cy"}`).fields(t, http.StatusOK)
	b.byToken(t, http.MethodPost, last, `{"decision":"deny"}`).refused(t, 409, "approval_decided", "approved")
	b.post(t, approvalsPath+"/"+ref+"/tokens", `{"approver":"bob","channel":"email"}`).refused(t, 409, "approval_decided", "final")
	b.post(t, approvalsPath+"/apr_none/tokens", `{"approver":"bob","channel":"email"}`).refused(t, 404, "not_found", "approval")
	b.post(t, approvalsPath+"/"+b.asks(t, "")+"/tokens", `{"approver":"a\u200bb","channel":"email"}`).refused(t, 400, "invalid_request", "approver")
}

// A token ends with its approval.
func TestExpiredToken(t *testing.T) {
	b := setup(t)
	ref := b.asks(t, `,"ttl_seconds":600`)
	token := b.tokenOf(t, ref, "ada")
	if _, err := b.pool.Exec(t.Context(), "UPDATE approval SET created_at = now() - interval '2 hours', expires_at = now() - interval '1 hour' WHERE ref = $1", ref); err != nil {
		t.Fatal(err)
	}
	b.byToken(t, http.MethodGet, token, "").refused(t, 410, "approval_expired", "expired")
	b.byToken(t, http.MethodPost, token, `{"decision":"deny"}`).refused(t, 410, "approval_expired", "expired")
}

// A token ends when another approval takes the place of its own, which then has a status of its own.
func TestSupersededToken(t *testing.T) {
	b := setup(t)
	a := b.exactly(t, `{}`, false, true)
	token := b.tokenOf(t, a.Ref, "ada")
	changed := exactCall(`{}`, false, true)
	changed.Policy = "p2"
	next, err := b.calls(t).Require(t.Context(), changed)
	if err != nil || next.Ref == a.Ref {
		t.Fatalf("%s, %v", next.Ref, err)
	}
	b.byToken(t, http.MethodGet, token, "").refused(t, 410, "approval_expired", "expired")
	b.byToken(t, http.MethodPost, token, `{"decision":"deny"}`).refused(t, 410, "approval_expired", "expired")
	b.post(t, approvalsPath+"/"+a.Ref+"/approve", `{"decided_by":"ada"}`).refused(t, 409, "approval_expired", "")
	for status, want := range map[string]string{"superseded": a.Ref, "pending": next.Ref} {
		list := b.get(t, approvalsPath+"?status="+status, "svc", "X-Organization-Id", "acme").fields(t, 200)["approvals"].([]any)
		if len(list) != 1 || list[0].(map[string]any)["ref"] != want || list[0].(map[string]any)["status"] != status {
			t.Errorf("%s: %v, want %s", status, list, want)
		}
	}
	if list := b.get(t, approvalsPath+"?status=expired", "svc", "X-Organization-Id", "acme").fields(t, 200)["approvals"].([]any); len(list) != 0 {
		t.Errorf("expired: %v", list)
	}
}

// Of concurrent decisions by many tokens, one takes effect.
func TestConcurrentTokens(t *testing.T) {
	b := setup(t)
	a := b.exactly(t, `{}`, false, true)
	var tokens []string
	for _, approver := range []string{"ada", "bob", "cy", "di", "ed", "flo"} {
		tokens = append(tokens, b.tokenOf(t, a.Ref, approver))
	}
	version := b.shown(t, tokens[0])["display_version"].(string)
	var won, lost atomic.Int64
	var group sync.WaitGroup
	for i, token := range tokens {
		group.Go(func() {
			body := []string{`{"decision":"approve","display_version":"` + version + `"}`, `{"decision":"deny"}`}[i%2]
			switch got := b.byToken(t, http.MethodPost, token, body); got.status {
			case http.StatusOK:
				won.Add(1)
			case http.StatusConflict:
				lost.Add(1)
			default:
				t.Errorf("%d %s", got.status, got.body)
			}
		})
	}
	group.Wait()
	if won.Load() != 1 || lost.Load() != 5 {
		t.Errorf("%d decided, %d came late", won.Load(), lost.Load())
	}
}

func TestStandingApproval(t *testing.T) {
	b := setup(t)
	calls := b.calls(t)
	a := b.exactly(t, `{"n":1}`, false, true)
	const path = approvalsPath + "/standing"
	body := func(ref, by, when string) string {
		return `{"approval_ref":"` + ref + `","created_by":"` + by + `","when":"` + when + `","uses":2,"ttl_seconds":600,"reason":"often"}`
	}
	b.post(t, path, body(a.Ref, "ada", "args.n < 5")).refused(t, 409, "conflict", "approval_ref")
	b.post(t, approvalsPath+"/"+a.Ref+"/approve", `{"decided_by":"ada"}`).fields(t, http.StatusOK)
	b.post(t, path, body(a.Ref, "Eve", "args.n < 5")).refused(t, 403, "reviewer_not_independent", "another principal")
	b.post(t, path, body(a.Ref, "ada", "args.n <")).refused(t, 400, "invalid_request", "when: ")
	b.post(t, path, body("apr_none", "ada", "true")).refused(t, 404, "not_found", "approval")
	made := b.post(t, path, body(a.Ref, "ada", "args.n < 5")).fields(t, http.StatusCreated)
	has(t, made, map[string]any{
		"status": "active", "server_id": "ci", "tool": "deploy", "uses": 2.0, "used": 0.0, "created_by": "ada", "reason": "often", "approval_ref": a.Ref,
	})
	require := func(arguments string, change func(*approval.Exact)) approval.Approval {
		t.Helper()
		c := exactCall(arguments, false, true)
		if change != nil {
			change(c)
		}
		got, err := calls.Require(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	for name, change := range map[string]func(*approval.Exact){
		"another definition": func(c *approval.Exact) { c.Definition = [32]byte{2} },
		"another tool":       func(c *approval.Exact) { c.Tool = "drop" },
		"another server":     func(c *approval.Exact) { c.Server = "cd" },
		"a rule refuses it":  func(c *approval.Exact) { c.StandingAllowed = false },
		"its creator asks":   func(c *approval.Exact) { c.User = "ada" },
		"other arguments":    func(c *approval.Exact) { c.Arguments = []byte(`{"n":5}`) },
		"none":               func(c *approval.Exact) { c.Arguments = []byte(`{}`) },
	} {
		if got := require(`{"n":2}`, change); got.Status != approval.Pending {
			t.Errorf("%s: %s", name, got.Status)
		}
	}
	used := require(`{"n":3}`, nil)
	if used.Status != approval.Approved || used.Call.State != approval.Claimed || used.DecidedBy != "ada" || used.Via != approval.ViaStanding || used.Call.StandingRef != made["standing_id"] {
		t.Errorf("%+v %+v", used, used.Call)
	}
	b.post(t, path, body(used.Ref, "ada", "true")).refused(t, 409, "conflict", "approval_ref")
	require(`{"n":4}`, nil)
	if got := require(`{"n":0}`, nil); got.Status != approval.Pending {
		t.Errorf("the third use: %s", got.Status)
	}
	list := b.get(t, path, "svc", "X-Organization-Id", "acme")
	if list.status != http.StatusOK || !strings.Contains(list.body, `"status":"used_up"`) || !strings.Contains(list.body, `"used":2`) {
		t.Errorf("%d %s", list.status, list.body)
	}
	if other := b.get(t, path, "svc", "X-Organization-Id", "bolt"); strings.Contains(other.body, "std_") {
		t.Errorf("another organization reads %s", other.body)
	}
	b.say(t, http.MethodDelete, path+"/"+made["standing_id"].(string), "").refused(t, 404, "not_found", "standing approval")
	more := b.post(t, path, body(a.Ref, "ada", "true")).fields(t, http.StatusCreated)["standing_id"].(string)
	if got := b.say(t, http.MethodDelete, path+"/"+more, "", "X-User-Id", "ada"); got.status != http.StatusNoContent {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got := require(`{"n":7}`, nil); got.Status != approval.Pending {
		t.Errorf("after it was revoked: %s", got.Status)
	}
	if entries := b.trail(t, "action=standing_approval."); len(entries) != 3 {
		t.Errorf("audit %v", entries)
	}
	never := b.exactly(t, `{"x":1}`, false, false)
	b.post(t, approvalsPath+"/"+never.Ref+"/approve", `{"decided_by":"ada"}`).fields(t, http.StatusOK)
	b.post(t, path, body(never.Ref, "ada", "true")).refused(t, 403, "standing_not_allowed", "rule")
}

// Of concurrent calls, as many are approved as there are uses.
func TestStandingUsesAreCounted(t *testing.T) {
	b := setup(t)
	store := postgres.NewApprovals(b.control)
	a := b.exactly(t, `{"n":1}`, false, true)
	b.post(t, approvalsPath+"/"+a.Ref+"/approve", `{"decided_by":"ada"}`).fields(t, http.StatusOK)
	entry := audit.New(t.Context(), "standing_approval.create", audit.Subject{Type: "standing_approval", Organization: "acme"}, "")
	now := time.Now().UTC().Truncate(time.Microsecond)
	if _, err := store.CreateStanding(t.Context(), "acme", approval.StandingApproval{
		Approval: a.Ref, When: "args.n > 1", Uses: 5, CreatedBy: "ada", ExpiresAt: now.Add(time.Hour),
	}, "", now, &entry); err != nil {
		t.Fatal(err)
	}
	calls := b.calls(t)
	var approved atomic.Int64
	var group sync.WaitGroup
	for i := range 20 {
		group.Go(func() {
			text, _ := json.Marshal(map[string]int{"n": i + 2})
			got, err := calls.Require(t.Context(), exactCall(string(text), false, true))
			if err != nil {
				t.Error(err)
			}
			if got.Status == approval.Approved {
				approved.Add(1)
			}
		})
	}
	group.Wait()
	if approved.Load() != 5 {
		t.Errorf("%d calls were approved, want 5", approved.Load())
	}
}
