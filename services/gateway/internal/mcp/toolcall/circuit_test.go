package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/platform/apierr"
)

func TestVerdicts(t *testing.T) {
	refused := func(status int) error {
		return &upstream.Error{Cause: upstream.CauseRefused, Status: status, Sent: status >= 500}
	}
	of := func(cause upstream.Cause) error {
		return fmt.Errorf("a call: %w", &upstream.Error{Cause: cause, Sent: true})
	}
	for want, all := range map[health.Outcome][]error{
		health.Good:     {nil},
		health.Answered: {&wire.Error{Code: -32603}, refused(401), refused(403), refused(404), refused(429)},
		health.Bad: {
			refused(500), refused(503), of(upstream.CauseUnreachable), of(upstream.CauseTimeout), of(upstream.CauseProtocol), of(upstream.CauseTooLarge),
		},
		health.Void: {
			of(upstream.CauseCanceled), of(upstream.CauseMemory), of(upstream.CauseTarget), of(upstream.CauseAuthentication), of(upstream.CauseUnauthorized),
			of(upstream.CauseBusy), of(upstream.CauseCommand), errors.New("a bug"),
		},
	} {
		for _, err := range all {
			if got := verdictOf(err); got.Outcome != want {
				t.Errorf("%v: %v, want %v", err, got, want)
			}
		}
	}
}

func TestCircuitsAreApart(t *testing.T) {
	own, all := CircuitOf("acme", toolserver.Key{Organization: "acme", ID: "files"}), CircuitOf("acme", toolserver.Key{ID: "files"})
	if other := CircuitOf("bolt", toolserver.Key{ID: "files"}); own == all || all == other {
		t.Errorf("%v, %v, %v", own, all, other)
	}
}

// A server that gives no answers is no longer called: nothing is sent, billed or kept reserved, and an approval isn't
// spent. What a tool says of itself holds nothing back.
func TestOpenCircuit(t *testing.T) {
	caller, w := open(t)
	w.grant = admission.Terms{Reserves: true}
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		return upstream.Result{Kind: upstream.KindComplete, IsError: true, Text: json.RawMessage(`{"content":[]}`)}, nil
	}
	for range 10 {
		if _, err := caller.Call(t.Context(), request(read, "")); err != nil {
			t.Fatal(err)
		}
	}
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		return upstream.Result{}, &upstream.Error{Cause: upstream.CauseTimeout, Sent: true, Text: "the server did not answer in time"}
	}
	for range 10 {
		_, err := caller.Call(t.Context(), request(read, ""))
		wants(t, err, ReasonOutcomeUnknown)
	}
	sent, billed, reserved := len(w.sent), len(w.rows), len(w.reserved)
	w.approvals = &approvals{world: w, state: approval.Claimed}
	caller.Approvals = w.approvals
	w.rule(toolrule.Rule{Approval: true})
	_, err := caller.Call(t.Context(), request(read, ""))
	wants(t, err, ReasonCircuitOpen)
	e, _ := errors.AsType[*apierr.Error](err)
	if e.Kind.HTTPStatus() != 503 || e.RetryAfter <= 0 || e.RetryAfter > time.Minute {
		t.Errorf("%+v", e)
	}
	if len(w.sent) != sent || len(w.rows) != billed || len(w.reserved) != reserved || w.approvals.sent > 0 || w.approvals.given == 0 {
		t.Errorf("%d sent, %d billed, %d reserved, approval spent %d times", len(w.sent)-sent, len(w.rows)-billed, len(w.reserved)-reserved, w.approvals.sent)
	}
	w.settings = toolrule.Settings{}
	other := request(read, "")
	w.servers[0].Organization, other.Organization = "", "bolt"
	w.tools[w.servers[0].Key()] = w.tools[toolserver.Key{Organization: "acme", ID: "files"}]
	if _, err = caller.Call(t.Context(), other); err == nil || len(w.sent) != sent+1 {
		t.Errorf("another organization is held back: %v", err)
	}
}
