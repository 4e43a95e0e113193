package api_test

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/keyterm"
	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/sampling"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/platform/apierr"
)

// A tool server gets its completion by the pipeline of chats, on the account of the tool's caller. The trace is redacted,
// and can't be replayed.
func TestCompletionsForToolServers(t *testing.T) {
	b := setup(t)
	sampler := sampling.New(b.engine(t, slog.New(slog.DiscardHandler)))
	terms := toolrule.Sampling{By: toolrule.SamplingByGateway, MaxTokens: 50, MaxRequests: 4}
	sample := func(a toolcall.Asker, preferences string) (json.RawMessage, error) {
		a.Organization, a.Service = "acme", "svc"
		return sampler.Sample(t.Context(), &a, "files", terms, json.RawMessage(
			`{"maxTokens":20,"modelPreferences":`+preferences+`,"messages":[{"role":"user","content":{"type":"text","text":"write to ada@example.com"}}]}`))
	}
	b.mint(t, "run-1", `,"ttl_seconds":600`)
	got, err := sample(toolcall.Asker{RequestID: "req-call-sampling-1", Run: "run-1", User: "ann", Tags: map[string]string{"team": "red"}}, "{}")
	if want := `{"role":"assistant","content":{"type":"text","text":"sandbox: write to ada@example.com"},"model":"sandbox","stopReason":"endTurn"}`; err != nil || string(got) != want {
		t.Fatalf("%s, %v, want %s", got, err, want)
	}
	b.recorded(t, "req-call-sampling-1", 1)
	shown := b.get(t, "/v1/traces?request_id=req-call-sampling-1", "svc", "X-Organization-Id", "acme")
	if trace := only(t, shown.fields(t, http.StatusOK)["traces"]); strings.Contains(shown.body, "ada@example.com") || !strings.Contains(shown.body, "[email]") {
		t.Errorf("%v", trace)
	}
	b.post(t, "/v1/replay/req-call-sampling-1", `{}`).refused(t, http.StatusUnprocessableEntity, "unprocessable", "tool server asked")
	if r := b.traces(t, "req-call-sampling-1")[0]; r.Run != "run-1" || r.Operation != "chat" || !r.Billed {
		t.Errorf("a record of %s in run %s, billed %t", r.Operation, r.Run, r.Billed)
	}

	// The run's authority and the key's terms hold, for the server's preferences too.
	b.mint(t, "run-2", `,"ttl_seconds":600,"models":["second/spare"]`)
	b.mint(t, "run-3", `,"ttl_seconds":600,"models":["first/other"]`)
	for _, a := range []toolcall.Asker{
		{RequestID: "req-allowed", Run: "run-2"}, {RequestID: "req-allowed", KeyTerms: keyterm.Terms{Key: "k1", Models: []string{"second/spare"}}},
	} {
		if got, err := sample(a, `{"hints":[{"name":"sandbox"},{"name":"spare"}]}`); err != nil || !strings.Contains(string(got), `"model":"spare"`) {
			t.Errorf("%s, %v", got, err)
		}
	}
	_, err = sample(toolcall.Asker{RequestID: "req-refused", Run: "run-3"}, `{"hints":[{"name":"sandbox"}]}`)
	refusedFor(t, err, inference.ReasonModelNotAllowed)
	b.operate(t, suspendPath, `{"reason":"abuse"}`).fields(t, http.StatusOK)
	_, err = sample(toolcall.Asker{RequestID: "req-refused"}, "{}")
	refusedFor(t, err, organization.ReasonSuspended)
}

func refusedFor(t *testing.T, err error, reason apierr.Reason) {
	t.Helper()
	if refused, ok := errors.AsType[*apierr.Error](err); !ok || refused.Reason != reason {
		t.Errorf("%v, want %s", err, reason)
	}
}
