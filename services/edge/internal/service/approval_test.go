package service_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/edge/internal/approver"
	"switchyard.dev/services/edge/internal/decision"
	"switchyard.dev/services/edge/internal/service"
)

func newApprovals(t *testing.T) (*services, *service.Approvals) {
	t.Helper()
	s, client, at := newClientAt(t)
	return s, service.NewApprovals(client, at)
}

var token = strings.Repeat("ab", 32)

// The answers are those of the gateway's contract.
func TestApproval(t *testing.T) {
	s, gateway := newApprovals(t)
	expires := time.Date(2026, 1, 2, 4, 4, 5, 0, time.UTC)
	for text, want := range map[string]approver.Present{
		`{"ref":"r1","status":"pending","decided_by":null,"expires_at":"2026-01-02T04:04:05Z","call":null}`:                               {State: "waiting", Group: "default", ExpiresAt: expires},
		`{"ref":"r1","status":"pending","expires_at":"2026-01-02T04:04:05Z","call":{"price_cents":2.5,"approvers":"ops","proof":"page"}}`: {State: "waiting", Group: "ops", ExpiresAt: expires, Cents: 2.5},
		`{"ref":"r1","status":"approved","decided_by":"ann","expires_at":"2026-01-02T04:04:05Z","decided_via":"slack"}`:                   {State: "approved", DecidedBy: "ann", Group: "default", ExpiresAt: expires},
		`{"ref":"r1","status":"expired","expires_at":"2026-01-02T04:04:05Z","arguments":{"a":[1,{"b":"c"}]},"call":{"x":1}}`:              {State: "expired", Group: "default", ExpiresAt: expires},
	} {
		s.text = text
		got, err := gateway.Approval(t.Context(), "acme", "r1")
		if diff := cmp.Diff(want, got); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", text, err, diff)
		}
	}
	if s.asked != "GET /v1/approvals/r1 " || s.header.Get("Authorization") != "Bearer canary-token" || s.header.Get("X-Organization-Id") != "acme" {
		t.Errorf("asked %s with %v", s.asked, s.header)
	}
	for text, status := range map[string]int{`{"status":"paused"}`: 200, `[]`: 200, `{"error":"unavailable"}`: 503} {
		s.text, s.status = text, status
		if got, err := gateway.Approval(t.Context(), "acme", "r1"); err == nil || errors.Is(err, approver.ErrGone) {
			t.Errorf("%d %s: %+v, %v", status, text, got, err)
		}
	}
	s.status = http.StatusNotFound
	if _, err := gateway.Approval(t.Context(), "acme", "r1"); !errors.Is(err, approver.ErrGone) {
		t.Errorf("not found: %v", err)
	}
}

func TestMint(t *testing.T) {
	s, gateway := newApprovals(t)
	s.status, s.text = http.StatusCreated, `{"token":"`+token+`","expires_at":"2026-01-02T04:04:05Z"}`
	got, err := gateway.Mint(t.Context(), "acme", "r1", "ann", "email")
	if err != nil || got != token || s.asked != `POST /v1/approvals/r1/tokens {"approver":"ann","channel":"email"}` || s.header.Get("X-Organization-Id") != "acme" {
		t.Errorf("%q, %v; asked %s", got, err, s.asked)
	}
	for _, tt := range []struct {
		status  int
		text    string
		gone    bool
		refused bool
	}{
		{403, "reviewer_not_independent", false, true},
		{403, "forbidden", false, false},
		{409, "approval_decided", true, false},
		{409, "approval_expired", true, false},
		{409, "tokens_exhausted", false, true},
		{404, "not_found", true, false},
		{400, "invalid_request", false, true},
		{401, "unauthenticated", false, false},
		{429, "rate_limited", false, false},
		{500, "internal", false, false},
		{201, "no token", false, false},
	} {
		s.status, s.text = tt.status, `{"error":"`+tt.text+`","reason":"x"}`
		got, err := gateway.Mint(t.Context(), "acme", "r1", "ann", "email")
		if err == nil || got != "" || errors.Is(err, approver.ErrGone) != tt.gone || errors.Is(err, approver.ErrRefused) != tt.refused {
			t.Errorf("%d %s: %q, %v", tt.status, tt.text, got, err)
		}
	}
}

// A decision needs the service token as well as the approver's, names no organization, and no error repeats a token.
func TestDecisions(t *testing.T) {
	s, gateway := newApprovals(t)
	s.text = `{"ref":"r1","organization_id":"acme","status":"pending","approver":"ann","channel":"email","server_id":"ci","tool":"deploy",
		"arguments":{"env":"prod"},"requested_by":"agent","run_id":null,"description":"","display_version":"v1","created_at":"2026-01-02T03:04:05Z",
		"expires_at":"2026-01-02T04:04:05Z","decided_by":null,"decided_via":null,"decided_at":null,"reason":null,
		"call":{"definition_digest":"d","call_digest":"c","rule":"r","proof":"page","price_cents":2.5,"definition_reviewed_by":"olga","redacted":["email"],"unknown_ref":null}}`
	d, err := gateway.Show(t.Context(), token)
	if err != nil || d.Version != "v1" || *d.Server != "ci" || string(d.Arguments) != `{"env":"prod"}` || *d.Call.ReviewedBy != "olga" || !d.Pending() || d.Run != nil {
		t.Errorf("%+v, %v", d, err)
	}
	if s.asked != "GET /v1/decisions/"+token+" " || s.header.Get("Authorization") != "Bearer canary-token" || s.header.Get("X-Organization-Id") != "" {
		t.Errorf("asked %s with %v", s.asked, s.header)
	}
	if version, err := gateway.Version(t.Context(), token); version != "v1" || err != nil {
		t.Errorf("version %q, %v", version, err)
	}
	if _, err := gateway.Decide(t.Context(), token, decision.Choice{Decision: "approve", Reason: "r", Version: "v1", Proof: "page"}); err != nil {
		t.Error(err)
	}
	if want := "POST /v1/decisions/" + token + ` {"decision":"approve","reason":"r","display_version":"v1","proof":"page"}`; s.asked != want {
		t.Errorf("asked %s, want %s", s.asked, want)
	}
	s.status, s.text = 409, `{"error":"approval_decided","error_class":"policy","retryable":false,"reason":"decided at noon"}`
	_, err = gateway.Decide(t.Context(), token, decision.Choice{Decision: "deny"})
	refusal, ok := errors.AsType[*decision.RefusalError](err)
	if !ok || *refusal != (decision.RefusalError{Status: 409, Reason: "approval_decided", Text: "decided at noon"}) {
		t.Errorf("refused with %v", err)
	}
	for _, status := range []int{410, 404} {
		s.status = status
		if _, err := gateway.Version(t.Context(), token); !errors.Is(err, approver.ErrGone) {
			t.Errorf("%d: %v", status, err)
		}
	}
	for status, reason := range map[int]string{503: "unavailable", 401: "unauthenticated", 403: "forbidden"} {
		s.status, s.text = status, `{"error":"`+reason+`","reason":"x"}`
		_, err := gateway.Show(t.Context(), token)
		if _, refused := errors.AsType[*decision.RefusalError](err); err == nil || refused || strings.Contains(err.Error(), token) {
			t.Errorf("%d %s: %v, want an error that refuses no person", status, reason, err)
		}
	}
}

// The bodies are those of notify's contract.
func TestMessages(t *testing.T) {
	s, gateway := newApprovals(t)
	s.status, s.text = http.StatusAccepted, `{"notification_id":"n1","accepted_channels":["web_push"]}`
	buttons := []approver.Button{{ID: "approve", Label: "Approve", Style: "primary", URL: "https://a"}, {ID: "deny", Label: "Deny", Value: "ntc_1"}}
	const actions = `"actions":[{"id":"approve","label":"Approve","style":"primary","url":"https://a"},{"id":"deny","label":"Deny","value":"ntc_1"}]`
	for _, tt := range []struct {
		message approver.Message
		want    string
	}{
		{
			approver.Message{
				Channel: "web_push", Subject: "s", Body: "b", User: "ann", URL: "https://p", Topic: "t", TTL: 60, Buttons: buttons, Repeated: "k",
				Decide: &approver.Decide{Ref: "r1", URL: "https://d", Version: "v1", Proof: "page"},
			},
			`{"channels":["web_push"],"subject":"s","message":"b","target":{"user_id":"ann","url":"https://p","topic":"t","ttl_seconds":60,` +
				`"data":{"approval":{"ref":"r1","decide_url":"https://d","display_version":"v1","proof":"page"}}},` + actions + `,"idempotency_key":"k"}`,
		},
		{approver.Message{Channel: "email", Subject: "s", Body: "b", Email: "a@b.c", Secret: "t", Repeated: "k"}, `{"channels":["email"],"subject":"s","message":"b","target":{"email":"a@b.c"},"secret":"t","idempotency_key":"k"}`},
		{approver.Message{Channel: "slack", Subject: "s", Body: "b", Slack: "C01", Repeated: "k"}, `{"channels":["slack"],"subject":"s","message":"b","target":{"slack_channel":"C01"},"idempotency_key":"k"}`},
	} {
		id, err := gateway.Send(t.Context(), "acme", tt.message)
		if id != "n1" || err != nil || s.asked != "POST /v1/notify "+tt.want || s.header.Get("X-Organization-Id") != "acme" {
			t.Errorf("%q, %v; asked %s, want %s", id, err, s.asked, tt.want)
		}
	}
	if err := gateway.Update(t.Context(), "acme", "n1", approver.Message{Channel: "email", Subject: "s", Body: "b", Repeated: "k"}); err != nil {
		t.Error(err)
	}
	if want := `POST /v1/notifications/sends/n1/updates {"subject":"s","message":"b","idempotency_key":"k"}`; s.asked != want {
		t.Errorf("asked %s, want %s", s.asked, want)
	}
	for status, refused := range map[int]bool{400: true, 404: true, 409: true, 422: true, 401: false, 403: false, 429: false, 500: false} {
		s.status, s.text = status, "{}"
		_, err := gateway.Send(t.Context(), "acme", approver.Message{})
		again := gateway.Update(t.Context(), "acme", "n1", approver.Message{})
		if err == nil || again == nil || errors.Is(err, alert.ErrRefused) != refused || errors.Is(again, alert.ErrRefused) != refused {
			t.Errorf("%d: %v, %v", status, err, again)
		}
	}
	s.status, s.text = 202, "{}"
	if id, err := gateway.Send(t.Context(), "acme", approver.Message{}); err == nil {
		t.Errorf("an answer without an id gives %q", id)
	}
}
