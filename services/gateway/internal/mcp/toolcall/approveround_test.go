package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/approval"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/input"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/platform/apierr"
)

// An approval is used up by the first round, and settled by the last one, however it ends.
func TestApprovedRounds(t *testing.T) {
	for name, test := range map[string]struct {
		last    func(ctx context.Context) (upstream.Result, error)
		settled []approval.State
	}{
		"answered":   {func(context.Context) (upstream.Result, error) { return done, nil }, []approval.State{approval.Done}},
		"tool error": {func(context.Context) (upstream.Result, error) { r := done; r.IsError = true; return r, nil }, []approval.State{approval.Failed}},
		"no answer":  {func(context.Context) (upstream.Result, error) { return upstream.Result{}, errReset }, []approval.State{approval.Unknown}},
		"not sent": {func(context.Context) (upstream.Result, error) {
			return upstream.Result{}, &upstream.Error{Err: errReset}
		}, nil},
		"refused": {func(context.Context) (upstream.Result, error) { return asking(`"x":{"method":"x"}`), nil }, []approval.State{approval.Unknown}},
	} {
		c, w := approving(t, approval.Claimed, 0)
		seals(t, c)
		w.answers(asking(askName))
		r := able(`{"a":1}`)
		first := begin(t, c, r)
		if len(w.approvals.settled) != 0 || w.approvals.given != 0 || w.approvals.within != w.servers[0].Timeout+answerMargin+roundsTime {
			t.Errorf("%s: after the first round: settled %v, given back %d, sent within %s", name, w.approvals.settled, w.approvals.given, w.approvals.within)
		}
		w.approvals.err = approval.ErrInProgress // It is not asked for again.
		w.answer = func(ctx context.Context, _ *upstream.Call) (upstream.Result, error) { return test.last(ctx) }
		_, _ = c.Call(t.Context(), next(r, first, ann))
		if !slices.Equal(w.approvals.settled, test.settled) || w.approvals.given != 0 || w.approvals.sent != 1 || len(w.approvals.asked) != 1 {
			t.Errorf("%s: settled %v, given back %d, used %d times, asked for %d times", name, w.approvals.settled, w.approvals.given, w.approvals.sent, len(w.approvals.asked))
		}
		if len(w.approvals.settled) > 0 && w.approvals.last != "7 apr_1 3 replica-1" {
			t.Errorf("%s: settled the claim %s", name, w.approvals.last)
		}
		if w.records[1].Request.ApprovalRef != "apr_1" {
			t.Errorf("%s: recorded with %q", name, w.records[1].Request.ApprovalRef)
		}
	}
}

// A round that is refused leaves the approval to its lease: what was sent before may have run.
func TestApprovedRoundIsRefused(t *testing.T) {
	c, w := approving(t, approval.Claimed, 0)
	seals(t, c)
	w.answers(asking(askName), done)
	r := able(`{"a":1}`)
	first := begin(t, c, r)
	w.distrust()
	_, err := c.Call(t.Context(), next(r, first, ann))
	if wants(t, err, ReasonUntrusted); w.approvals.given != 0 || len(w.approvals.settled) != 0 {
		t.Errorf("given back %d, settled %v", w.approvals.given, w.approvals.settled)
	}
}

// paging returns a world whose calls with the argument a of 1 need an approval that has a page.
func paging(t *testing.T, hold time.Duration) (*Caller, *world) {
	t.Helper()
	c, w := approving(t, approval.Waiting, hold)
	seals(t, c)
	c.ApprovalPages = "https://console.example/approvals?ref={ref}"
	return c, w
}

// A caller that can open pages is sent to the one of its approval at once; its arguments are in no text. When it comes
// back, it is held, and the call is made once it is approved.
func TestApprovalPage(t *testing.T) {
	c, w := paging(t, time.Minute)
	r := able(`{"a":1,"b":"secret"}`)
	first := begin(t, c, r)
	const want = `{"dev.switchyard/approval":{"method":"elicitation/create","params":{"mode":"url",` +
		`"message":"files: a person has to approve this call of the tool read (apr_1); it is made once that has happened","url":"https://console.example/approvals?ref=apr_1"}}}`
	if got := requestsOf(first.Text); got != want || strings.Contains(string(first.Text), "secret") {
		t.Errorf("asked %s", got)
	}
	if len(w.sent) != 0 || len(w.rows) != 0 || len(w.reserved) != 0 || w.records[0].Request.ApprovalRef != "apr_1" || w.records[0].Answer != nil {
		t.Errorf("sent %d, billed %d, reserved %v", len(w.sent), len(w.rows), w.reserved)
	}
	for _, inputs := range []string{`"dev.switchyard/approval":{"action":"accept"}`, ""} {
		w.sent, w.rows = nil, nil
		w.approvals.state = approval.Waiting
		answered := make(chan Answer)
		go func() {
			answer, err := c.Call(t.Context(), next(r, first, inputs))
			if err != nil {
				t.Error(err)
			}
			answered <- answer
		}()
		w.approvals.decide(approval.Claimed, nil, nil)
		if answer := <-answered; string(answer.Text) != string(`{"content":[]}`) || len(w.sent) != 1 || len(w.rows) != 1 || w.rows[0].Cost != 7e9 {
			t.Errorf("%s, sent %d, billed %d", answer.Text, len(w.sent), len(w.rows))
		}
	}
}

// A caller that is not held any longer is asked again; one that declines is refused, and its approval stays.
func TestApprovalPageAgain(t *testing.T) {
	c, w := paging(t, 10*time.Millisecond)
	r := able(`{"a":1}`)
	first := begin(t, c, r)
	second := next(r, first, "")
	third := next(second, begin(t, c, second), "")
	begin(t, c, third)
	for _, action := range []string{input.ActionDecline, input.ActionCancel} {
		asked := len(w.approvals.asked)
		_, err := c.Call(t.Context(), next(r, first, `"dev.switchyard/approval":{"action":"`+action+`"}`))
		if wants(t, err, ReasonApprovalRequired); len(w.approvals.asked) != asked {
			t.Error("asked for the approval that its caller did not want to see")
		}
		if about, ok := errors.AsType[*ApprovalError](err); !ok || about.Ref != "apr_1" {
			t.Errorf("%v", err)
		}
	}
	w.approvals.err = approval.ErrDenied
	_, err := c.Call(t.Context(), next(r, first, `"dev.switchyard/approval":{"action":"accept"}`))
	wants(t, err, approval.ReasonDenied)
	if len(w.sent) != 0 {
		t.Errorf("sent %d", len(w.sent))
	}
}

// Callers that can't open pages are held, as are all where there is no page.
func TestNoApprovalPage(t *testing.T) {
	for name, change := range map[string]func(c *Caller, r *Request){
		"no page":              func(c *Caller, _ *Request) { c.ApprovalPages = "" },
		"no keys":              func(c *Caller, _ *Request) { c.Tickets = nil },
		"no pages are opened":  func(_ *Caller, r *Request) { r.Client.Capabilities = json.RawMessage(`{"elicitation":{}}`) },
		"nothing was declared": func(_ *Caller, r *Request) { r.Client = Client{} },
		"it is asked live":     func(_ *Caller, r *Request) { r.Client.Ask = answering(func() {}) },
	} {
		c, w := paging(t, 0)
		r := able(`{"a":1}`)
		change(c, r)
		_, err := c.Call(t.Context(), r)
		if wants(t, err, ReasonApprovalRequired); len(w.sent) != 0 {
			t.Errorf("%s: sent %d", name, len(w.sent))
		}
	}
}

// Who asks never decides: whatever a caller answers, brings back or repeats, a call whose approval is pending is not made.
func TestCallersNeverApprove(t *testing.T) {
	c, w := paging(t, time.Millisecond)
	seen := seals(t, c)
	r := able(`{"a":1}`)
	first := begin(t, c, r)
	for _, inputs := range []string{
		"", `"dev.switchyard/approval":{"action":"accept"}`, `"dev.switchyard/approval":{"action":"accept","content":{"approved":true,"decision":"approve"}}`,
		`"approval":{"action":"accept"}`, ann, `"dev.switchyard/approval":{"action":"approve"}`, `"dev.switchyard/approval":{"role":"user","content":{"type":"text"},"model":"m"}`,
	} {
		for range 2 {
			_, _ = c.Call(t.Context(), next(r, first, inputs))
		}
	}
	other := next(r, first, `"dev.switchyard/approval":{"action":"accept"}`)
	for _, change := range []func(r *Request){
		func(r *Request) { r.User = "bob" }, func(r *Request) { r.Arguments = json.RawMessage(`{"a":1,"b":2}`) }, func(r *Request) { r.Tool.Tool = "write" },
		func(r *Request) { r.Run = "run-2" }, func(r *Request) { r.Client.Capabilities = nil },
	} {
		changed := *other
		change(&changed)
		_, _ = c.Call(t.Context(), &changed)
	}
	if len(w.sent) != 0 || len(w.rows) != 0 || w.approvals.sent != 0 || len(seen.used) != 0 {
		t.Errorf("sent %d, billed %d, approvals used %d", len(w.sent), len(w.rows), w.approvals.sent)
	}
	// A state of a page is none of a round, also once the call could be made.
	w.approvals.state = approval.Claimed
	if _, err := c.Call(t.Context(), other); err != nil || len(w.approvals.asked) == 0 || w.approvals.sent != 1 {
		t.Errorf("approved: %v, used %d", err, w.approvals.sent)
	}
	w.settings.Rules = []toolrule.Rule{{Name: "denied", Deny: true}}
	_, err := c.Call(t.Context(), other)
	wants(t, err, toolrule.ReasonDenied)
	w.settings.Rules = nil
	w.refused = apierr.Unavailable("away", nil)
	_, err = c.Call(t.Context(), other)
	if wants(t, err, apierr.ReasonUnavailable); len(w.sent) != 1 {
		t.Errorf("sent %d", len(w.sent))
	}
}
