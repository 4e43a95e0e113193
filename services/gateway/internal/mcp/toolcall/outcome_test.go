package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
)

// What the ledger has, and what the caller gets, of calls that end in every way.
func TestOutcomes(t *testing.T) {
	for name, c := range map[string]struct {
		answer  func(w *world, ctx context.Context) (upstream.Result, error)
		reason  apierr.Reason
		outcome ledger.Outcome // empty for no row
		status  trace.Status
	}{
		"tool error": {
			func(*world, context.Context) (upstream.Result, error) {
				return upstream.Result{Kind: upstream.KindComplete, IsError: true, Text: json.RawMessage(`{}`)}, nil
			}, "", ledger.OutcomeCompleted, trace.StatusOK,
		},
		"not sent": {
			func(*world, context.Context) (upstream.Result, error) {
				return upstream.Result{}, &upstream.Error{Err: errors.New("refused")}
			},
			apierr.ReasonUnavailable, "", trace.StatusFailed,
		},
		"no token": {
			func(*world, context.Context) (upstream.Result, error) {
				return upstream.Result{}, &upstream.Error{Cause: upstream.CauseUnauthorized, Text: "no access token can be had: why"}
			},
			ReasonUnauthorized, "", trace.StatusFailed,
		},
		"refused by the server": {
			func(*world, context.Context) (upstream.Result, error) {
				return upstream.Result{}, &upstream.Error{Cause: upstream.CauseRefused, Status: 403}
			},
			ReasonUnauthorized, "", trace.StatusFailed,
		},
		"no answer": {
			func(*world, context.Context) (upstream.Result, error) { return upstream.Result{}, errors.New("reset") },
			ReasonOutcomeUnknown, ledger.OutcomeInterrupted, trace.StatusFailed,
		},
		"panic": {
			func(*world, context.Context) (upstream.Result, error) { panic("a bug") },
			ReasonOutcomeUnknown, ledger.OutcomeInterrupted, trace.StatusFailed,
		},
		"asks for input": {
			func(*world, context.Context) (upstream.Result, error) {
				return upstream.Result{Kind: upstream.KindInputRequired, Text: json.RawMessage(`{}`)}, nil
			},
			apierr.ReasonNotImplemented, ledger.OutcomeCompleted, trace.StatusFailed,
		},
		"too slow": {
			func(_ *world, ctx context.Context) (upstream.Result, error) {
				<-ctx.Done()
				return upstream.Result{}, ctx.Err()
			},
			ReasonOutcomeUnknown, ledger.OutcomeInterrupted, trace.StatusFailed,
		},
		"revoked": {
			func(w *world, ctx context.Context) (upstream.Result, error) {
				w.cause(run.ErrRevoked)
				<-ctx.Done()
				return upstream.Result{}, ctx.Err()
			}, run.ReasonRevoked, ledger.OutcomeAborted, trace.StatusAborted,
		},
		"revoked before it was sent": {
			func(w *world, ctx context.Context) (upstream.Result, error) {
				w.cause(run.ErrRevoked)
				<-ctx.Done()
				return upstream.Result{}, &upstream.Error{Err: ctx.Err()}
			}, run.ReasonRevoked, "", trace.StatusFailed,
		},
		"caller left": {
			func(w *world, ctx context.Context) (upstream.Result, error) {
				w.cause(nil)
				<-ctx.Done()
				return upstream.Result{}, ctx.Err()
			}, apierr.ReasonCancelled, ledger.OutcomeCancelled, trace.StatusCancelled,
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				caller, w := open(t)
				w.grant = admission.Terms{Reserves: true}
				w.answer = func(ctx context.Context, _ *upstream.Call) (upstream.Result, error) { return c.answer(w, ctx) }
				_, err := caller.Call(t.Context(), request(read, ""))
				if c.reason == "" && err != nil {
					t.Error(err)
				} else if c.reason != "" {
					wants(t, err, c.reason)
				}
				if len(w.sent) != 1 {
					t.Errorf("%d calls, want one, never a second", len(w.sent))
				}
				switch {
				case c.outcome == "" && (len(w.rows) > 0 || len(w.reserved) > 0):
					t.Errorf("billed %v, reserved %v, and nothing was sent", w.rows, w.reserved)
				case c.outcome != "" && (len(w.rows) != 1 || w.rows[0].Outcome != c.outcome || w.rows[0].Cost != 7e9 || len(w.reserved) != 1):
					t.Errorf("rows %+v, want one that was %s", w.rows, c.outcome)
				}
				if o := w.records[0]; o.Status != c.status || (o.Report != nil) != (c.outcome != "") || (o.Err != nil) != (c.reason != "") {
					t.Errorf("record %+v", o)
				}
			})
		})
	}
}

// The server's own error reaches the caller and not the record.
func TestServersError(t *testing.T) {
	c, w := open(t)
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		return upstream.Result{}, &wire.Error{Code: -32602, Message: "their text"}
	}
	_, err := c.Call(t.Context(), request(read, ""))
	if answer, ok := errors.AsType[*wire.Error](err); !ok || answer.Code != -32602 {
		t.Errorf("%v", err)
	}
	if w.rows[0].Outcome != ledger.OutcomeCompleted || strings.Contains(w.records[0].Err.Error(), "their text") || w.records[0].Tries[0].Code != "-32602" {
		t.Errorf("row %+v, record %+v", w.rows[0], w.records[0])
	}
}

// A row that the ledger didn't take keeps its reservation from being replaced; the answer is given.
func TestCommitFails(t *testing.T) {
	c, w := open(t)
	w.grant, w.commitErr = admission.Terms{Reserves: true}, errors.New("full")
	if _, err := c.Call(t.Context(), request(read, "")); err != nil || len(w.reserved) != 0 {
		t.Errorf("%v, reserved %v", err, w.reserved)
	}
}
