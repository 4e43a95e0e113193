package api_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/platform/testkit"
)

// mint makes the authority of a run of acme.
func (b *bench) mint(tb testing.TB, id, limits string) {
	tb.Helper()
	b.post(tb, "/v1/runs/mint", fmt.Sprintf(`{"run_id":%q%s}`, id, limits)).fields(tb, http.StatusCreated)
}

// ask sends a chat of a run with a model that costs 0.006 cents.
func (b *bench) ask(tb testing.TB, id string) answer {
	tb.Helper()
	return b.chat(tb, `{"model":"first/ok","max_tokens":2,"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", id)
}

func (b *bench) authority(tb testing.TB, id string) map[string]any {
	tb.Helper()
	return b.get(tb, "/v1/runs/"+id+"/authority", "svc", "X-Organization-Id", "acme").fields(tb, http.StatusOK)
}

// audited returns the audit entries of a subject, oldest first.
func (b *bench) audited(tb testing.TB, subject string) string {
	tb.Helper()
	rows, err := b.pool.Query(tb.Context(), "SELECT action || ' by ' || actor FROM audit_entry WHERE subject = $1 ORDER BY id", subject)
	if err != nil {
		tb.Fatal(err)
	}
	defer rows.Close()
	var all []string
	for rows.Next() {
		var one string
		if err := rows.Scan(&one); err != nil {
			tb.Fatal(err)
		}
		all = append(all, one)
	}
	return strings.Join(all, ", ")
}

// until polls until objection returns an empty text.
func until(tb testing.TB, objection func() string) {
	tb.Helper()
	testkit.Wait(tb, "what was set is followed", func() error {
		if text := objection(); text != "" {
			return errors.New(text)
		}
		return nil
	})
}

func TestMintAndUse(t *testing.T) {
	b := setup(t)
	minted := b.post(t, "/v1/runs/mint", `{"run_id":"r1","initiated_by":"ada","max_cost_cents":5,"max_calls":3,"models":["first/ok"],"ttl_seconds":60,"approval_ref":"ap","metadata":{"k":"v"}}`).fields(t, http.StatusCreated)
	has(t, minted, map[string]any{
		"run_id": "r1", "organization_id": "acme", "status": "minted", "initiated_by": "ada", "max_cost_cents": 5, "max_calls": 3,
		"models": []string{"first/ok"}, "spent_cents": 0, "calls": 0, "approval_ref": "ap", "activated_at": nil, "ended_at": nil, "revoked_by": nil,
		"abort_requested": false, "metadata": map[string]string{"k": "v"},
	})
	if a := b.ask(t, "r1"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	used := b.authority(t, "r1")
	if has(t, used, map[string]any{"status": "active", "calls": 1, "reserved_cents": 0, "spent_cents": 0.006}); used["activated_at"] == nil {
		t.Error("it has no first call")
	}
	b.chat(t, `{"model":"sandbox","messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", "r1").refused(t, 403, "model_not_allowed", "model")
	b.ask(t, "r1")
	b.ask(t, "r1")
	b.ask(t, "r1").refused(t, 403, "run_exhausted", "")
	has(t, b.authority(t, "r1"), map[string]any{"status": "exhausted", "calls": 3})
	if got := b.audited(t, "r1"); !strings.HasPrefix(got, "run.mint by edge") {
		t.Errorf("audited %q", got)
	}
	// Without settings it gets an id, the caller and 24 hours.
	bare := b.post(t, "/v1/runs/mint", `{}`, "X-User-Id", "bob").fields(t, http.StatusCreated)
	has(t, bare, map[string]any{"initiated_by": "bob", "max_cost_cents": nil, "max_calls": nil, "models": []string{}, "status": "minted"})
	if expires, err := time.Parse(time.RFC3339, bare["expires_at"].(string)); err != nil || time.Until(expires).Round(time.Hour) != 24*time.Hour || bare["run_id"] == "" {
		t.Errorf("%v", bare)
	}
}

// The limits of tools come back as they were minted, and the end says which limit it was.
func TestToolLimitsOfARun(t *testing.T) {
	b := setup(t)
	minted := b.post(t, "/v1/runs/mint", `{"run_id":"r","allowed_tools":["github/get_*","files/*"],"max_tool_calls":20,"max_calls":1}`).fields(t, http.StatusCreated)
	limits := map[string]any{"allowed_tools": []string{"github/get_*", "files/*"}, "max_tool_calls": 20, "tool_calls": 0, "end_reason": nil}
	has(t, minted, limits)
	has(t, b.authority(t, "r"), limits)
	has(t, b.post(t, "/v1/runs/mint", `{"run_id":"bare"}`).fields(t, http.StatusCreated), map[string]any{"allowed_tools": []string{}, "max_tool_calls": nil})
	if a := b.ask(t, "r"); a.status != http.StatusOK {
		t.Fatalf("%d %s", a.status, a.body)
	}
	has(t, b.authority(t, "r"), map[string]any{"status": "exhausted", "end_reason": "max_calls", "tool_calls": 0})
}

// A run below another has a part of its authority, is listed by it, and ends with it.
func TestRunsBelow(t *testing.T) {
	b := setup(t)
	b.post(t, "/v1/runs/mint", `{"run_id":"top","max_cost_cents":5,"models":["first/ok"]}`).fields(t, http.StatusCreated)
	child := b.post(t, "/v1/runs/mint", `{"run_id":"c","parent_run_id":"top","max_cost_cents":1.25}`).fields(t, http.StatusCreated)
	top := b.authority(t, "top")
	has(t, child, map[string]any{"parent_run_id": "top", "depth": 1, "max_cost_cents": 1.25, "models": []string{"first/ok"}, "expires_at": top["expires_at"]})
	has(t, top, map[string]any{"parent_run_id": nil, "depth": 0, "max_cost_cents": 3.75})
	for body, want := range map[string]string{
		`{"parent_run_id":"top"}`:                                                        "max_cost_cents",
		`{"parent_run_id":"top","max_cost_cents":3.75}`:                                  "max_cost_cents",
		`{"parent_run_id":"top","max_cost_cents":1,"models":["second/ok"]}`:              "models[0]",
		`{"parent_run_id":"top","max_cost_cents":1,"expires_at":"2999-01-01T00:00:00Z"}`: "expires_at",
		`{"parent_run_id":"none","max_cost_cents":1}`:                                    "parent_run_id",
	} {
		b.post(t, "/v1/runs/mint", body).refused(t, 400, "invalid_request", want)
	}
	b.post(t, "/v1/runs/mint", `{"parent_run_id":"top","max_cost_cents":1}`, "X-Organization-Id", "other").refused(t, 400, "invalid_request", "parent_run_id")
	list := b.get(t, "/v1/runs?parent_run_id=top", "svc", "X-Organization-Id", "acme")
	if !strings.Contains(list.body, `"run_id":"c"`) || strings.Contains(list.body, `"run_id":"top"`) {
		t.Errorf("listed %s", list.body)
	}
	b.post(t, "/v1/runs/mint", `{"run_id":"g","parent_run_id":"c","max_cost_cents":0.5}`).fields(t, http.StatusCreated)
	b.post(t, "/v1/runs/mint", `{"parent_run_id":"g","max_cost_cents":0.1}`).refused(t, 403, "run_too_deep", "parent_run_id")
	has(t, b.authority(t, "g"), map[string]any{"status": "exhausted", "end_reason": "max_depth"})
	b.post(t, "/v1/runs/top/revoke", `{"reason":"enough"}`).fields(t, http.StatusOK)
	has(t, b.authority(t, "c"), map[string]any{"status": "revoked", "revoke_reason": "enough"})
	b.ask(t, "c").refused(t, 403, "run_revoked", "")
}

func TestMintRefuses(t *testing.T) {
	b := setup(t)
	b.mint(t, "r1", "")
	past, soon := time.Now().Add(-time.Minute).UTC().Format(time.RFC3339), time.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	for _, c := range []struct {
		body, reason, text string
		status             int
	}{
		{`{"run_id":"r1"}`, "conflict", "run_id", 409},
		{`{"run_id":"a b"}`, "invalid_request", "run_id", 400},
		{`{"max_cost_cents":0}`, "invalid_request", "max_cost_cents", 400},
		{`{"max_calls":0}`, "invalid_request", "max_calls", 400},
		{`{"ttl_seconds":0}`, "invalid_request", "ttl_seconds", 400},
		{`{"ttl_seconds":60,"expires_at":"` + soon + `"}`, "invalid_request", "ttl_seconds", 400},
		{`{"expires_at":"` + past + `"}`, "invalid_request", "expires_at", 400},
		{`{"expires_at":"2999-01-01T00:00:00Z"}`, "invalid_request", "expires_at", 400},
		{`{"models":["a","a"]}`, "invalid_request", "models", 400},
		{`{"allowed_tools":["a/b","a/b"]}`, "invalid_request", "allowed_tools", 400},
		{`{"allowed_tools":["search"]}`, "invalid_request", "allowed_tools", 400},
		{`{"allowed_tools":["a/b\n"]}`, "invalid_request", "allowed_tools", 400},
		{`{"max_tool_calls":0}`, "invalid_request", "max_tool_calls", 400},
		{`{"organization_id":"other"}`, "organization_mismatch", "organization_id", 403},
		{`{"max_calls":1,"maxcalls":1}`, "invalid_request", "maxcalls", 400},
	} {
		b.post(t, "/v1/runs/mint", c.body).refused(t, c.status, c.reason, c.text)
	}
	b.post(t, "/v1/runs/mint", `{}`, "X-Organization-Id", "").refused(t, 400, "invalid_request", "organization_id")
	b.post(t, "/v1/runs/mint", `{"run_id":"x"}`, "X-Run-Id", "y").refused(t, 400, "identity_mismatch", "run_id")
	b.post(t, "/v1/runs/mint", `{}`, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "")
	// Another organization may have a run of the same id; it sees only its own.
	b.post(t, "/v1/runs/mint", `{"run_id":"r1"}`, "X-Organization-Id", "other").fields(t, http.StatusCreated)
}

// Of concurrent mints of one run, one succeeds.
func TestMintOnce(t *testing.T) {
	b := setup(t)
	var made, taken atomic.Int64
	var group sync.WaitGroup
	for range 10 {
		group.Go(func() {
			switch a := b.post(t, "/v1/runs/mint", `{"run_id":"r"}`); a.status {
			case http.StatusCreated:
				made.Add(1)
			case http.StatusConflict:
				taken.Add(1)
			default:
				t.Errorf("%d %s", a.status, a.body)
			}
		})
	}
	group.Wait()
	if made.Load() != 1 || taken.Load() != 9 {
		t.Errorf("%d made, %d taken", made.Load(), taken.Load())
	}
	if got := b.audited(t, "r"); got != "run.mint by edge" {
		t.Errorf("audited %q", got)
	}
}

// A revoked run makes no call on any face or operation; its streams in flight end with an error event, and what arrived
// is billed.
func TestRevoke(t *testing.T) {
	b := setup(t)
	b.mint(t, "r", "")
	resp := b.open(t.Context(), t, `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", "r")
	defer resp.Body.Close()
	revoke := func(by string) answer {
		return b.post(t, "/v1/runs/r/revoke", `{"revoked_by":"`+by+`","reason":"runaway"}`)
	}
	revoked := revoke("ada").fields(t, http.StatusOK)
	has(t, revoked, map[string]any{"status": "revoked", "revoked_by": "ada", "revoke_reason": "runaway"})
	text := readAll(t, resp.Body) // The vendor's answer never ends by itself.
	if !strings.Contains(text, "event: error") || !strings.Contains(text, `"error":"run_revoked"`) {
		t.Errorf("the stream has no error run_revoked: %s", text)
	}
	if strings.Contains(text, "[DONE]") {
		t.Errorf("the stream ends as a whole one does: %s", text)
	}
	<-b.vendor.left
	if n := b.rows(t, "run_id = 'r' AND outcome = 'aborted' AND output_tokens > 0"); n != 1 {
		t.Errorf("%d rows", n)
	}
	if again := revoke("eve").fields(t, http.StatusOK); again["revoked_by"] != "ada" || again["ended_at"] != revoked["ended_at"] {
		t.Errorf("again: %v", again)
	}
	b.ask(t, "r").refused(t, 403, "run_revoked", "")
	b.post(t, "/v1/embeddings", `{"organization_id":"acme","model":"first/vectors","input":["x"]}`, "X-Run-Id", "r").refused(t, 403, "run_revoked", "")
	if got := b.audited(t, "r"); got != "run.mint by edge, run.revoke by edge" {
		t.Errorf("audited %q", got)
	}
}

func TestRevokeRefuses(t *testing.T) {
	b := setup(t)
	b.mint(t, "r", `,"max_calls":1`)
	b.ask(t, "r")
	b.post(t, "/v1/runs/r/revoke", `{}`).refused(t, 409, "conflict", "exhausted")
	b.post(t, "/v1/runs/r/revoke", `{}`, "X-Organization-Id", "other").refused(t, 404, "not_found", "")
	b.post(t, "/v1/runs/x/revoke", `{}`).refused(t, 404, "not_found", "run")
	b.post(t, "/v1/runs/r/revoke", `{}`, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "")
	b.get(t, "/v1/runs/r/authority", "svc", "X-Organization-Id", "other", "X-Request-Id", "req-test").refused(t, 404, "not_found", "")
	b.get(t, "/v1/runs/x/authority", "svc", "X-Organization-Id", "acme", "X-Request-Id", "req-test").refused(t, 404, "not_found", "")
	b.get(t, "/v1/runs/r/authority", "sup", "X-Organization-Id", "acme", "X-Request-Id", "req-test").refused(t, 403, "forbidden", "")
}

// An authority that expires ends its stream in flight at that moment.
func TestExpiry(t *testing.T) {
	b := setup(t)
	b.mint(t, "r", `,"ttl_seconds":1`)
	resp := b.open(t.Context(), t, `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", "r")
	defer resp.Body.Close()
	if text := readAll(t, resp.Body); !strings.Contains(text, `"error":"run_expired"`) {
		t.Error(text)
	}
	<-b.vendor.left
	b.ask(t, "r").refused(t, 403, "run_expired", "")
	has(t, b.authority(t, "r"), map[string]any{"status": "expired", "calls": 1})
	until(t, func() string {
		if got := b.audited(t, "r"); got != "run.mint by edge, run.expire by system" {
			return "audited " + got
		}
		return ""
	})
}

// A session needs no authority: an abort ends its streams, and its further calls
// are refused.
func TestAbortSession(t *testing.T) {
	b := setup(t)
	resp := b.open(t.Context(), t, `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", "s")
	defer resp.Body.Close()
	const abort, spend = "/v1/admin/sessions/s/abort", "/v1/admin/sessions/s/spend"
	has(t, b.get(t, spend, "ops", "X-Organization-Id", "acme").fields(t, http.StatusOK), map[string]any{
		"run_id": "s", "organization_id": "acme", "status": "active", "in_flight": 1, "calls": 1, "spent_cents": 0, "max_cost_cents": nil,
	})
	b.post(t, abort, `{}`).refused(t, 403, "forbidden", "")
	aborted := b.post(t, abort, `{"reason":"runaway"}`, "Authorization", "Bearer ops").fields(t, http.StatusOK)
	has(t, aborted, map[string]any{"run_id": "s", "organization_id": "acme", "abort_requested": true, "requested_by": "ops", "reason": "runaway"})
	if text := readAll(t, resp.Body); !strings.Contains(text, `"error":"run_aborted"`) {
		t.Error(text)
	}
	<-b.vendor.left
	again := b.post(t, abort, `{"reason":"other"}`, "Authorization", "Bearer ops").fields(t, http.StatusOK)
	has(t, again, map[string]any{"reason": "runaway", "abort_requested_at": aborted["abort_requested_at"], "status": "aborted"})
	b.ask(t, "s").refused(t, 403, "run_aborted", "")
	b.post(t, "/v1/runs/mint", `{"run_id":"s"}`).refused(t, 409, "run_aborted", "run_id")
	if got := b.audited(t, "s"); got != "session.abort by ops" {
		t.Errorf("audited %q", got)
	}
	// The organization may be omitted where only one has the run.
	has(t, b.get(t, spend, "ops").fields(t, http.StatusOK), map[string]any{"organization_id": "acme", "status": "aborted", "calls": 1, "in_flight": 0})
	b.post(t, "/v1/runs/mint", `{"run_id":"s"}`, "X-Organization-Id", "other")
	b.get(t, spend, "ops", "X-Request-Id", "req-test").refused(t, 409, "conflict", "organization_id")
	b.get(t, "/v1/admin/sessions/none/spend", "ops", "X-Request-Id", "req-test").refused(t, 404, "not_found", "")
	b.get(t, "/v1/admin/sessions/none/spend", "ops", "X-Organization-Id", "acme", "X-Request-Id", "req-test").refused(t, 404, "not_found", "")
	b.get(t, spend, "svc", "X-Request-Id", "req-test").refused(t, 403, "forbidden", "")
}

// Fifty concurrent calls do not exceed a run's ceiling, and all of it is used.
func TestFiftyCallsDontOverrunARun(t *testing.T) {
	b := setup(t)
	b.mint(t, "r", `,"max_calls":7,"max_cost_cents":1`)
	served := b.storm(t, 50, "r", "run_exhausted")
	has(t, b.authority(t, "r"), map[string]any{"calls": served, "reserved_cents": 0})
	for b.ask(t, "r").status == http.StatusOK {
		served++
	}
	if n := b.rows(t, "run_id = 'r'"); n != 7 || served != 7 {
		t.Errorf("%d rows, %d served, want 7", n, served)
	}
}

// storm makes n concurrent calls and returns how many are served.
func (b *bench) storm(t *testing.T, n int, id, reason string) int {
	t.Helper()
	var served atomic.Int64
	var group sync.WaitGroup
	for range n {
		group.Go(func() {
			if a := b.ask(t, id); a.status == http.StatusOK {
				served.Add(1)
			} else {
				a.refused(t, 403, reason, "")
			}
		})
	}
	group.Wait()
	return int(served.Load())
}

// Both faces answer alike.
func TestRunsOverGRPC(t *testing.T) {
	b := setup(t)
	_, md := b.client()
	ctx := metadata.NewOutgoingContext(t.Context(), md)
	runs := gatewayv1.NewRunServiceClient(b.conn)
	minted, err := runs.MintRun(ctx, &gatewayv1.MintRunRequest{RunId: "r"})
	if err != nil || minted.GetStatus() != "minted" {
		t.Fatalf("%v %v", minted, err)
	}
	if _, err = runs.MintRun(ctx, &gatewayv1.MintRunRequest{RunId: "r"}); status.Code(err) != codes.AlreadyExists && status.Code(err) != codes.Aborted && status.Code(err) != codes.FailedPrecondition {
		t.Errorf("again: %v", err)
	}
	if got, err := runs.RevokeRun(ctx, &gatewayv1.RevokeRunRequest{RunId: "r"}); err != nil || got.GetStatus() != "revoked" || got.GetRevokedBy().GetValue() != "edge" {
		t.Errorf("%v %v", got, err)
	}
	if got, err := runs.GetRunAuthority(ctx, &gatewayv1.GetRunAuthorityRequest{RunId: "r"}); err != nil || got.GetStatus() != "revoked" {
		t.Errorf("%v %v", got, err)
	}
	inferences, _ := b.client()
	request := &gatewayv1.LlmRequest{Messages: []*gatewayv1.ChatMessage{{Role: "user", Content: []byte(`"hi"`)}}, RunId: "r"}
	if _, err := inferences.Chat(ctx, request); status.Code(err) != codes.PermissionDenied {
		t.Errorf("a call of the revoked run: %v", err)
	}
	operators := metadata.NewOutgoingContext(context.Background(), metadata.Pairs("authorization", "Bearer ops"))
	if got, err := runs.AbortSession(operators, &gatewayv1.AbortSessionRequest{RunId: "r"}); err != nil || got.GetStatus() != "revoked" || !got.GetAbortRequested() {
		t.Errorf("%v %v", got, err)
	}
	if got, err := runs.GetSessionSpend(operators, &gatewayv1.GetSessionSpendRequest{RunId: "r"}); err != nil || got.GetStatus() != "revoked" {
		t.Errorf("%v %v", got, err)
	}
}

// An owner's session can't spend the organization's runs, on any face; a call on the owner's behalf can.
func TestOwnersSessionsSpendNoRun(t *testing.T) {
	b := setup(t)
	b.post(t, "/v1/runs/mint", `{"run_id":"r1","initiated_by":"ivy","ttl_seconds":600,"max_calls":1}`).fields(t, 201)
	session := []string{"X-Owner-Id", "o1", "X-Owner-Session", "true"}
	for path, body := range map[string]string{
		"/v1/llm/chat":   chatOf("x", `"run_id":"r1"`),
		completions:      `{"model":"sandbox","switchyard":{"run_id":"r1"},"messages":[{"role":"user","content":"x"}]}`,
		messagesPath:     `{"model":"sandbox","max_tokens":5,"switchyard":{"run_id":"r1"},"messages":[{"role":"user","content":"x"}]}`,
		responsesPath:    `{"model":"sandbox","switchyard":{"run_id":"r1"},"input":"x"}`,
		"/v1/embeddings": `{"model":"sandbox","run_id":"r1","input":["x"]}`,
	} {
		if got := b.say(t, "POST", path, body, session...); got.status != 403 || !strings.Contains(got.body, "run_id: an owner's session") {
			t.Errorf("%s: %d %s, want 403", path, got.status, got.body)
		}
	}
	if got := b.chat(t, chatOf("x", `"run_id":"r1"`), "X-Owner-Id", "o1"); got.status != 200 {
		t.Errorf("on an owner's behalf: %d %s", got.status, got.body)
	}
	if got := b.chat(t, chatOf("x", `"run_id":"r1"`)); got.status != 403 || !strings.Contains(got.body, "run_exhausted") {
		t.Errorf("beyond the run's one call: %d %s", got.status, got.body)
	}
}
