package api_test

import (
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
)

// own calls a path for an organization as a service does.
func (b *bench) own(tb testing.TB, organization, path string) answer {
	tb.Helper()
	return b.get(tb, path, "svc", "X-Organization-Id", organization, "X-Request-Id", "req-test")
}

// An organization reads a session of its own that is in flight and stops it: its stream ends, and its further calls are
// refused. Another organization finds none of that id.
func TestOwnSession(t *testing.T) {
	b := setup(t)
	resp := b.open(t.Context(), t, `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", "s")
	defer resp.Body.Close()
	const path, abort = "/v1/sessions/s", "/v1/sessions/s/abort"
	has(t, b.own(t, "acme", path).fields(t, http.StatusOK), map[string]any{
		"run_id": "s", "organization_id": "acme", "status": "active", "in_flight": 1, "calls": 1, "spent_cents": 0, "max_cost_cents": nil,
		"max_calls": nil, "abort_requested": false, "abort_requested_at": nil,
	})
	b.own(t, "other", path).refused(t, 404, "not_found", "run")
	b.post(t, abort, `{}`, "X-Organization-Id", "other").refused(t, 404, "not_found", "run")
	if text := b.ask(t, "s"); text.status != http.StatusOK {
		t.Fatalf("after another organization's abort: %d %s", text.status, text.body)
	}
	aborted := b.post(t, abort, `{"reason":"runaway"}`).fields(t, http.StatusOK)
	has(t, aborted, map[string]any{"run_id": "s", "organization_id": "acme", "abort_requested": true})
	if text := readAll(t, resp.Body); !strings.Contains(text, `"error":"run_aborted"`) {
		t.Error(text)
	}
	<-b.vendor.left
	again := b.post(t, abort, `{"reason":"other"}`).fields(t, http.StatusOK)
	has(t, again, map[string]any{"abort_requested_at": aborted["abort_requested_at"], "status": "aborted", "calls": 2, "in_flight": 0})
	b.ask(t, "s").refused(t, 403, "run_aborted", "")
	if got := b.audited(t, "s"); got != "session.abort by edge" {
		t.Errorf("audited %q", got)
	}
}

// A session that is not known can't be stopped, so that nothing is stored of it, and the answer names no operator who
// stopped one.
func TestOwnSessionRefuses(t *testing.T) {
	b := setup(t)
	b.mint(t, "r", `,"max_calls":7,"max_cost_cents":5`)
	has(t, b.own(t, "acme", "/v1/sessions/r").fields(t, http.StatusOK), map[string]any{"status": "idle", "max_calls": 7, "max_cost_cents": 5, "started_at": nil})
	b.own(t, "acme", "/v1/sessions/none").refused(t, 404, "not_found", "run")
	b.post(t, "/v1/sessions/none/abort", `{}`).refused(t, 404, "not_found", "run")
	b.own(t, "acme", "/v1/sessions/none").refused(t, 404, "not_found", "run")
	if got := b.audited(t, "none"); got != "" {
		t.Errorf("audited %q", got)
	}
	b.own(t, "", "/v1/sessions/r").refused(t, 400, "invalid_request", "organization_id")
	b.own(t, "", "/v1/sessions").refused(t, 400, "invalid_request", "organization_id")
	b.own(t, "acme", "/v1/sessions/r?organization_id=other").refused(t, 403, "organization_mismatch", "organization_id")
	b.own(t, "acme", "/v1/sessions/a%00b").refused(t, 400, "invalid_request", "zero byte")
	b.own(t, "acme", "/v1/sessions?limit=201").refused(t, 400, "invalid_request", "limit")
	b.own(t, "acme", "/v1/sessions?cursor=none").refused(t, 400, "invalid_request", "cursor")
	b.post(t, "/v1/sessions/r/abort", `{"reason":"`+strings.Repeat("x", 1025)+`"}`).refused(t, 400, "invalid_request", "reason")
	b.post(t, "/v1/sessions/r/abort", `{"organization_id":"other"}`).refused(t, 403, "organization_mismatch", "organization_id")
	b.post(t, "/v1/sessions/r/abort", `{}`, "Authorization", "Bearer sup").refused(t, 403, "forbidden", "")
	b.get(t, "/v1/sessions/r", "sup", "X-Organization-Id", "acme", "X-Request-Id", "req-test").refused(t, 403, "forbidden", "")

	b.post(t, "/v1/admin/sessions/r/abort", `{"reason":"an-operators-reason"}`, "Authorization", "Bearer ops").fields(t, http.StatusOK)
	for _, a := range []answer{b.own(t, "acme", "/v1/sessions/r"), b.post(t, "/v1/sessions/r/abort", `{}`), b.own(t, "acme", "/v1/sessions")} {
		if text := a.body; a.status != http.StatusOK || !strings.Contains(text, `"abort_requested":true`) || strings.Contains(text, "operator") || strings.Contains(text, `"ops"`) {
			t.Errorf("%d %s", a.status, text)
		}
	}
}

// The list has an organization's sessions by run id, minted or not, over pages whose cursor belongs to their filters.
func TestListSessions(t *testing.T) {
	b := setup(t)
	b.mint(t, "b", "")
	b.ask(t, "a")
	b.ask(t, "c<&>"+strings.Repeat("<", 124))
	b.post(t, "/v1/runs/mint", `{"run_id":"foreign"}`, "X-Organization-Id", "other").fields(t, http.StatusCreated)
	var ids []string
	cursor := ""
	for page := 0; page == 0 || cursor != ""; page++ {
		m := b.own(t, "acme", "/v1/sessions?limit=1&cursor="+cursor).fields(t, http.StatusOK)
		for _, one := range m["sessions"].([]any) {
			ids = append(ids, one.(map[string]any)["run_id"].(string))
		}
		if cursor = m["next_cursor"].(string); cursor != "" && page == 0 {
			b.own(t, "acme", "/v1/sessions?in_flight=true&cursor="+cursor).refused(t, 400, "invalid_request", "cursor")
			b.own(t, "other", "/v1/sessions?cursor="+cursor).refused(t, 400, "invalid_request", "cursor")
		}
	}
	if got := strings.Join(ids, " "); got != "a b c<&>"+strings.Repeat("<", 124) {
		t.Errorf("listed %q", got)
	}
	resp := b.open(t.Context(), t, `{"model":"first/endless","stream":true,"messages":[{"role":"user","content":"hi"}]}`, "X-Run-Id", "live")
	defer resp.Body.Close()
	until(t, func() string {
		a := b.own(t, "acme", "/v1/sessions?in_flight=true")
		m := a.fields(t, http.StatusOK)
		if all := m["sessions"].([]any); len(all) != 1 || all[0].(map[string]any)["run_id"] != "live" || all[0].(map[string]any)["in_flight"] != float64(1) {
			return "in flight: " + a.body
		}
		return ""
	})
}

// Both faces answer alike.
func TestSessionsOverGRPC(t *testing.T) {
	b := setup(t)
	b.mint(t, "r", "")
	_, md := b.client()
	ctx := metadata.NewOutgoingContext(t.Context(), md)
	sessions := gatewayv1.NewSessionServiceClient(b.conn)
	if got, err := sessions.GetSession(ctx, &gatewayv1.GetSessionRequest{RunId: "r"}); err != nil || got.GetStatus() != "idle" {
		t.Errorf("%v %v", got, err)
	}
	if got, err := sessions.AbortOwnSession(ctx, &gatewayv1.AbortOwnSessionRequest{RunId: "r"}); err != nil || got.GetStatus() != "aborted" || !got.GetAbortRequested() {
		t.Errorf("%v %v", got, err)
	}
	if got, err := sessions.ListSessions(ctx, &gatewayv1.ListSessionsRequest{}); err != nil || len(got.GetSessions()) != 1 || got.GetSessions()[0].GetStatus() != "aborted" {
		t.Errorf("%v %v", got, err)
	}
	if _, err := sessions.GetSession(ctx, &gatewayv1.GetSessionRequest{RunId: "x"}); status.Code(err) != codes.NotFound {
		t.Errorf("an unknown one: %v", err)
	}
}
