package toolcall

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/apierr"
)

// approvals are Approvals in memory, of one call. Its approval is pending until it is decided.
type approvals struct {
	world   *world
	decided chan struct{} // wakes those that wait
	waiting chan struct{} // gets one for each that begins to wait
	// now is what a call gets next; while it waits, it is held.
	mu      sync.Mutex
	state   approval.State
	err     error
	sendErr error
	asked   []approval.Exact
	settled []approval.State
	sent    int
	given   int // back
	within  time.Duration
	last    string // the claim that was settled
}

func (a *approvals) Require(_ context.Context, c *approval.Exact) (approval.Approval, error) {
	a.world.step("approval")
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, *c)
	return approval.Approval{ID: 7, Ref: "apr_1", Call: &approval.Execution{State: a.state, Attempt: 3, Replica: "replica-1"}}, a.err
}

func (a *approvals) Wait(ctx context.Context, _, _ string, until time.Time) (bool, error) {
	a.world.step("wait")
	a.waiting <- struct{}{}
	timer := time.NewTimer(time.Until(until))
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false, ctx.Err()
	case <-a.decided:
		return true, nil
	case <-timer.C:
		return false, nil
	}
}

func (a *approvals) Send(_ context.Context, _ *approval.Approval, within time.Duration) error {
	a.world.step("spend")
	a.within = within
	a.sent++
	return a.sendErr
}

func (a *approvals) Release(context.Context, *approval.Approval) error {
	a.given++
	return nil
}

func (a *approvals) Settle(_ context.Context, claimed *approval.Approval, state approval.State) error {
	a.last = fmt.Sprintf("%d %s %d %s", claimed.ID, claimed.Ref, claimed.Call.Attempt, claimed.Call.Replica)
	a.settled = append(a.settled, state)
	return nil
}

// decide decides while the call waits, after a change.
func (a *approvals) decide(state approval.State, err error, change func()) {
	<-a.waiting
	a.mu.Lock()
	a.state, a.err = state, err
	if change != nil {
		change()
	}
	a.mu.Unlock()
	a.decided <- struct{}{}
}

// approving returns a world whose calls with the argument a of 1 need an approval.
func approving(t *testing.T, state approval.State, hold time.Duration) (*Caller, *world) {
	t.Helper()
	_, w := open(t)
	w.approvals = &approvals{world: w, decided: make(chan struct{}, 1), waiting: make(chan struct{}, 1000), state: state}
	w.hold = hold
	w.rule(toolrule.Rule{When: "args.a == 1", Approval: true, Approvers: "ops"})
	return w.caller(t), w
}

// An approval is claimed after the checks of the arguments, used up right before the call leaves, and given back otherwise.
func TestApproval(t *testing.T) {
	c, w := approving(t, approval.Claimed, 0)
	if _, err := c.Call(t.Context(), request(read, `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	exact := w.approvals.asked[0]
	if exact.Organization != "acme" || exact.Run != "run-1" || exact.Server != "files" || exact.Tool != "read" || exact.Policy != "policy-1" ||
		string(exact.Arguments) != `{"a":1}` || exact.Definition == (definition.Digest{}) || exact.Rule != "a rule" || exact.Approvers != "ops" ||
		!exact.Page || !exact.StandingAllowed || exact.RequestedBy != "ann" || exact.User != "ann" || exact.Price != 7e9 {
		t.Errorf("asked for %+v", exact)
	}
	if i := slices.Index(w.steps, "spend"); i < 0 || w.steps[i+1] != "send" || w.approvals.sent != 1 || w.approvals.given != 0 {
		t.Errorf("steps %v", w.steps)
	}
	if w.records[0].Request.ApprovalRef != "apr_1" || !slices.Equal(w.approvals.settled, []approval.State{approval.Done}) {
		t.Errorf("record %+v, settled %v", w.records[0].Request, w.approvals.settled)
	}
	w.approvals.sendErr = approval.ErrLost
	_, err := c.Call(t.Context(), request(read, `{"a":1}`))
	wants(t, err, apierr.ReasonUnavailable)
	w.approvals.sendErr, w.ready = nil, errors.New("full")
	_, err = c.Call(t.Context(), request(read, `{"a":1}`))
	wants(t, err, apierr.ReasonUnavailable)
	if w.approvals.given != 2 || len(w.sent) != 1 || len(w.approvals.settled) != 1 {
		t.Errorf("%d given back, %d sent, settled %v", w.approvals.given, len(w.sent), w.approvals.settled)
	}
}

// What became of an approved call: it is unknown where something left and no answer came, and given back where nothing left.
func TestApprovedCallEnds(t *testing.T) {
	for name, test := range map[string]struct {
		result  upstream.Result
		err     error
		settled []approval.State
		given   int
	}{
		"answered":   {upstream.Result{Kind: upstream.KindComplete, Text: []byte(`{}`)}, nil, []approval.State{approval.Done}, 0},
		"tool error": {upstream.Result{Kind: upstream.KindComplete, Text: []byte(`{}`), IsError: true}, nil, []approval.State{approval.Failed}, 0},
		"no answer":  {upstream.Result{}, errors.New("reset"), []approval.State{approval.Unknown}, 0},
		"not sent":   {upstream.Result{}, &upstream.Error{Err: errors.New("refused")}, nil, 1},
	} {
		c, w := approving(t, approval.Claimed, 0)
		w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) { return test.result, test.err }
		_, _ = c.Call(t.Context(), request(read, `{"a":1}`))
		if !slices.Equal(w.approvals.settled, test.settled) || w.approvals.given != test.given {
			t.Errorf("%s: settled %v, given back %d", name, w.approvals.settled, w.approvals.given)
		}
	}
}

// A call that is not held, or no longer, is refused with its approval, and gives its reservation back.
func TestPendingApproval(t *testing.T) {
	for _, hold := range []time.Duration{0, 20 * time.Millisecond} {
		c, w := approving(t, approval.Waiting, hold)
		w.grant.Run = &run.Run{}
		_, err := c.Call(t.Context(), request(read, `{"a":1}`))
		about, ok := errors.AsType[*ApprovalError](err)
		if wants(t, err, ReasonApprovalRequired); !ok || about.Ref != "apr_1" {
			t.Errorf("%v", err)
		}
		if len(w.sent) != 0 || len(w.rows) != 0 || len(w.reserved) != 0 || w.approvals.given != 0 {
			t.Errorf("sent %d, billed %d, reserved %v, given back %d", len(w.sent), len(w.rows), w.reserved, w.approvals.given)
		}
		if w.records[0].Request.ApprovalRef != "apr_1" {
			t.Errorf("record %+v", w.records[0].Request)
		}
	}
}

// A held call is decided again by everything that holds when its approval comes.
func TestHeldCall(t *testing.T) {
	for name, test := range map[string]struct {
		state  approval.State
		err    error
		change func(w *world)
		reason apierr.Reason // empty: it is sent
	}{
		"approved": {state: approval.Claimed},
		"denied":   {state: approval.Waiting, err: approval.ErrDenied, reason: approval.ReasonDenied},
		"the run is revoked": {
			state: approval.Claimed, change: func(w *world) { w.cause(run.ErrRevoked) }, reason: run.ReasonRevoked,
		},
		"the server lost its trust": {
			state: approval.Claimed, change: func(w *world) { w.levels["files"] = trust.Untrusted }, reason: ReasonUntrusted,
		},
		"the definition changed": {state: approval.Claimed, change: func(w *world) {
			key := w.servers[0].Key()
			w.tools[key] = []definition.Reviewed{changedTool(w)}
		}, reason: definition.ReasonUnreviewed},
		"a rule denies it": {
			state: approval.Claimed, change: func(w *world) { w.rule(toolrule.Rule{Deny: true}) }, reason: toolrule.ReasonDenied,
		},
		"the server is gone": {
			state: approval.Claimed, change: func(w *world) { w.servers = nil }, reason: apierr.ReasonNotFound,
		},
		"no rule asks any more": {state: approval.Waiting, change: func(w *world) { w.settings.Rules, w.version = nil, "policy-2" }},
	} {
		t.Run(name, func(t *testing.T) {
			c, w := approving(t, approval.Waiting, time.Minute)
			done := make(chan error)
			go func() {
				_, err := c.Call(t.Context(), request(read, `{"a":1}`))
				done <- err
			}()
			w.approvals.decide(test.state, test.err, func() {
				if test.change != nil {
					test.change(w)
				}
			})
			err := <-done
			if test.reason != "" {
				wants(t, err, test.reason)
			} else if err != nil {
				t.Error(err)
			}
			if sent := test.reason == ""; (len(w.sent) == 1) != sent || (len(w.rows) == 1) != sent {
				t.Errorf("sent %d, billed %d", len(w.sent), len(w.rows))
			}
		})
	}
}

func changedTool(w *world) definition.Reviewed {
	changed := tool(w.servers[0], "read")
	changed.Digest[31], changed.Status = 1, definition.Pending
	return changed
}

// A held call that its caller cancels leaves its approval, and gives its reservation back.
func TestCancelledHeldCall(t *testing.T) {
	c, w := approving(t, approval.Waiting, time.Minute)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error)
	go func() {
		_, err := c.Call(ctx, request(read, `{"a":1}`))
		done <- err
	}()
	<-w.approvals.waiting
	cancel()
	wants(t, <-done, apierr.ReasonCancelled)
	if len(w.sent) != 0 || len(w.reserved) != 0 || w.approvals.given != 0 {
		t.Errorf("sent %d, reserved %v, given back %d", len(w.sent), w.reserved, w.approvals.given)
	}
}
