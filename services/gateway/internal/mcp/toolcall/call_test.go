package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/governance/organization"
	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/money/budget"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/admission"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit"
)

var read = Name{Server: "files", Tool: "read"}

func TestCall(t *testing.T) {
	c, w := open(t)
	w.grant = admission.Terms{Reserves: true, Run: &run.Run{Status: run.Active}}
	answer, err := c.Call(t.Context(), request(Name{Tool: "fs__read"}, ` {"b": 1.0, "a": "x"} `))
	if err != nil {
		t.Fatal(err)
	}
	if answer.Server != "files" || answer.Tool != "read" || string(answer.Text) != `{"content":[]}` {
		t.Errorf("answer %+v", answer)
	}
	if len(w.sent) != 1 || string(w.sent[0].Arguments) != `{"a":"x","b":1}` || w.sent[0].Tool != "read" || w.sent[0].Organization != "acme" {
		t.Errorf("sent %+v, want the canonical arguments", w.sent)
	}
	want := []string{"reserve", "trust", "texts", "send", "commit"}
	if diff := cmp.Diff(want, w.steps); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	row := w.rows[0]
	if w.reserved[row.ID] != 7e9 {
		t.Errorf("reserved %v, want the price under the row's id", w.reserved)
	}
	if row.StartedAt.IsZero() || row.EndedAt.Before(row.StartedAt) {
		t.Errorf("times %v to %v", row.StartedAt, row.EndedAt)
	}
	row.ID, row.StartedAt, row.EndedAt = [16]byte{}, time.Time{}, time.Time{}
	if diff := cmp.Diff(ledger.Entry{
		RequestID: "r1", Organization: "acme", Key: "k1", User: "ann", Service: "edge", Run: "run-1", Tags: map[string]string{"team": "a"},
		Operation: "tool", RequestedProvider: "mcp/files", RequestedModel: "read", Provider: "mcp/files", Model: "read",
		Credential: "byok", Fingerprint: "f1", Attempts: 1, State: ledger.StateReported, Cost: 7e9, PriceVersion: "server/3",
		Outcome: ledger.OutcomeCompleted,
	}, row); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	o := w.records[0]
	if o.ID != w.rows[0].ID || o.Status != trace.StatusOK || o.Report == nil || o.Report.Cost != 7e9 || o.Policy != "policy-1" ||
		string(o.Request.Raw.Body) != `{"server":"files","tool":"read","arguments":{"a":"x","b":1}}` || string(o.Answer.Written) != `{"content":[]}` {
		t.Errorf("record %+v", o)
	}
}

// Each check refuses a call with its own error. Nothing is sent or billed, and nothing stays reserved.
func TestRefusals(t *testing.T) {
	authority := func(w *world) { w.grant = admission.Terms{Reserves: true, Run: &run.Run{Status: run.Active}} }
	limited := func(w *world) { authority(w); w.grant.Run.Limits.AllowedTools = []string{"files/write"} }
	first := func(w *world) *definition.Reviewed { return &w.tools[w.servers[0].Key()][0] }
	changed := func(w *world, name string) {
		key := w.servers[0].Key()
		before := tool(w.servers[0], name)
		before.Digest[31], before.Present = 1, false
		w.tools[key] = append(w.tools[key], before)
		w.tools[key][1].Status = definition.Pending
	}
	for name, c := range map[string]struct {
		change func(w *world)
		tool   Name
		args   string
		want   apierr.Reason
	}{
		"unknown server":       {nil, Name{"other", "read"}, "", apierr.ReasonNotFound},
		"unknown prefix":       {nil, Name{"", "xx__read"}, "", definition.ReasonToolNotFound},
		"no prefix":            {nil, Name{"", "read"}, "", definition.ReasonToolNotFound},
		"name too long":        {nil, Name{"", "fs__" + strings.Repeat("a", 125)}, "", definition.ReasonToolNotFound},
		"duplicate names":      {nil, read, `{"a":1,"a":2}`, apierr.ReasonInvalidRequest},
		"large integer":        {nil, read, `{"a":9007199254740993}`, apierr.ReasonInvalidRequest},
		"arguments no object":  {nil, read, `[1]`, apierr.ReasonInvalidRequest},
		"suspended":            {func(w *world) { w.refused = organization.ErrSuspended }, read, "", organization.ErrSuspended.Reason},
		"run ended":            {func(w *world) { w.refused = run.ErrRevoked }, read, "", run.ReasonRevoked},
		"run required":         {func(w *world) { w.settings.RequireRun = true }, Name{"nameless", "read"}, "", toolrule.ReasonRunRequired},
		"run lacks the tool":   {limited, read, "", run.ReasonToolNotAllowed},
		"run's count":          {func(w *world) { authority(w); w.reserveErr = run.ErrToolsExhausted }, read, "", run.ReasonExhausted},
		"budget":               {func(w *world) { authority(w); w.reserveErr = budget.ErrExceeded }, read, "", budget.ReasonExceeded},
		"untrusted":            {func(w *world) { authority(w); w.levels["files"] = trust.Untrusted }, read, "", ReasonUntrusted},
		"no trust record":      {func(w *world) { authority(w); delete(w.levels, "files") }, read, "", ReasonUntrusted},
		"stricter minimum":     {func(w *world) { w.rule(toolrule.Rule{Tools: []string{"READ"}, MinimumTrust: trust.Verified}) }, read, "", ReasonUntrusted},
		"trust away":           {func(w *world) { authority(w); w.stale = errors.New("away") }, read, "", apierr.ReasonUnavailable},
		"listing away":         {func(w *world) { authority(w); w.away = errors.New("away") }, read, "", apierr.ReasonUnavailable},
		"never listed":         {func(w *world) { clear(w.tools) }, read, "", definition.ReasonToolNotFound},
		"no such tool":         {nil, Name{"files", "delete"}, "", definition.ReasonToolNotFound},
		"vanished":             {func(w *world) { first(w).Present = false }, read, "", definition.ReasonToolNotFound},
		"unreviewed":           {func(w *world) { first(w).Status = definition.Pending }, read, "", definition.ReasonUnreviewed},
		"rejected":             {func(w *world) { first(w).Status = definition.Rejected }, read, "", definition.ReasonRejected},
		"another tool changed": {func(w *world) { changed(w, "write") }, read, "", definition.ReasonChanged},
		"denied":               {func(w *world) { w.rule(toolrule.Rule{Servers: []string{"files"}, Deny: true}) }, read, "", toolrule.ReasonDenied},
		"schema that can't be used": {func(w *world) {
			authority(w)
			first(w).Text = json.RawMessage(`{"inputSchema":{"$ref":"https://x.example/s"}}`)
		}, read, "", definition.ReasonUnreviewed},
		"denied by arguments":              {func(w *world) { authority(w); w.rule(toolrule.Rule{When: "args.n == 1", Deny: true}) }, read, `{"n":1.0}`, toolrule.ReasonDenied},
		"arguments that a rule can't read": {func(w *world) { w.rule(toolrule.Rule{When: "args.n == 1", Deny: true}) }, read, "", toolrule.ReasonDenied},
		"trust that arguments demand": {func(w *world) {
			authority(w)
			w.rule(toolrule.Rule{When: "args.n > 1", MinimumTrust: trust.FirstParty})
		}, read, `{"n":2}`, ReasonUntrusted},
		"approval":                       {func(w *world) { w.rule(toolrule.Rule{Approval: true}) }, read, "", ReasonApprovalRequired},
		"approval that arguments demand": {func(w *world) { w.rule(toolrule.Rule{When: "args.n > 1", Approval: true}) }, read, `{"n":2}`, ReasonApprovalRequired},
		"ledger away":                    {func(w *world) { authority(w); w.ready = errors.New("full") }, read, "", apierr.ReasonUnavailable},
	} {
		t.Run(name, func(t *testing.T) {
			caller, w := open(t)
			if c.change != nil {
				c.change(w)
			}
			r := request(c.tool, c.args)
			if r.Tool.Server == "nameless" {
				r.Tool.Server, r.Run = "files", ""
			}
			_, err := caller.Call(t.Context(), r)
			wants(t, err, c.want)
			if len(w.sent) > 0 || len(w.rows) > 0 || len(w.reserved) > 0 {
				t.Errorf("sent %v, billed %v, still reserved %v", w.sent, w.rows, w.reserved)
			}
			if len(w.records) > 0 && (w.records[0].Report != nil || w.records[0].Err == nil || w.records[0].Status == trace.StatusOK) {
				t.Errorf("record %+v", w.records[0])
			}
		})
	}
}

// Arguments that break their schema are answered with a result, from which a model can learn. Nothing is sent.
func TestSchema(t *testing.T) {
	c, w := open(t)
	w.grant = admission.Terms{Reserves: true}
	answer, err := c.Call(t.Context(), request(read, `{"n":"secret-text"}`))
	if err != nil || !answer.IsError || !strings.Contains(string(answer.Text), "/n: ") || strings.Contains(string(answer.Text), "secret-text") {
		t.Errorf("%s %v", answer.Text, err)
	}
	if len(w.sent) > 0 || len(w.rows) > 0 || len(w.reserved) > 0 {
		t.Error("it was sent, or stays reserved")
	}
	if _, err := c.Call(t.Context(), request(read, `{"n":1}`)); err != nil || len(w.sent) != 1 {
		t.Errorf("by the schema that is kept: %v", err)
	}
}

// A call without a run and without limits reserves nothing; one of a run is counted in any case.
func TestReservation(t *testing.T) {
	c, w := open(t)
	w.reserveErr = budget.ErrExceeded
	nameless := request(read, "")
	nameless.Run = ""
	if _, err := c.Call(t.Context(), nameless); err != nil || len(w.counted) != 0 {
		t.Errorf("%v, counted %v", err, w.counted)
	}
	w.reserveErr = nil
	w.settings.MaxToolCalls, w.settings.RepeatLimit = 9, 4
	for _, args := range []string{`{"a":1,"b":2}`, `{"b":2.0,"a":1}`, `{"a":1}`} {
		if _, err := c.Call(t.Context(), request(read, args)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Call(t.Context(), request(Name{"files", "write"}, `{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	got := w.counted
	if len(got) != 4 || got[0].MaxCalls != 9 || got[0].Repeats != 4 {
		t.Fatalf("%+v", got)
	}
	if got[0].Digest != got[1].Digest || got[0].Digest == got[2].Digest || got[2].Digest == got[3].Digest {
		t.Error("the same call has one digest, and others another")
	}
}

// What the server's limits refuse is refused with the time to wait. A call gives its place back.
func TestLimits(t *testing.T) {
	c, w := open(t)
	w.servers[0].Concurrency = 1
	inside, leave := make(chan struct{}), make(chan struct{})
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		close(inside)
		<-leave
		return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{}`)}, nil
	}
	done := make(chan error)
	go func() {
		_, err := c.Call(context.WithoutCancel(t.Context()), request(read, ""))
		done <- err
	}()
	<-inside
	_, err := c.Call(t.Context(), request(Name{"files", "write"}, ""))
	wants(t, err, apierr.ReasonRateLimited)
	close(leave)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	w.answer = func(context.Context, *upstream.Call) (upstream.Result, error) {
		return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{}`)}, nil
	}
	testkit.Wait(t, "the place of the first", func() error {
		_, err := c.Call(t.Context(), request(read, ""))
		return err
	})

	c, w = open(t)
	w.servers[0].PerMinute = 2
	for range 2 {
		if _, err := c.Call(t.Context(), request(read, "")); err != nil {
			t.Fatal(err)
		}
	}
	_, err = c.Call(t.Context(), request(read, ""))
	wants(t, err, apierr.ReasonRateLimited)
	if e := apierr.From(err); e.RetryAfter <= 0 || e.RetryAfter > 2*time.Minute {
		t.Errorf("retry after %s", e.RetryAfter)
	}
}

// A server of all organizations is called with the fleet's credential, and one of an organization's own goes first.
func TestServerOfAll(t *testing.T) {
	c, w := open(t)
	shared := *w.servers[0]
	shared.Organization, shared.ID, shared.Prefix, shared.Price = "", "shared", "shared", 1
	hidden := shared
	hidden.ID, hidden.Prefix = "files", "hidden"
	w.servers = append([]*toolserver.Server{&hidden, &shared}, w.servers...)
	w.levels["shared"] = trust.Verified
	w.tools[shared.Key()] = []definition.Reviewed{tool(&shared, "read")}
	if _, err := c.Call(t.Context(), request(Name{Tool: "shared__read"}, "")); err != nil {
		t.Fatal(err)
	}
	if w.rows[0].Credential != "fleet" || w.rows[0].Provider != "mcp/shared" {
		t.Errorf("%+v", w.rows[0])
	}
	_, err := c.Call(t.Context(), request(Name{Tool: "hidden__read"}, ""))
	wants(t, err, definition.ReasonToolNotFound)
	if _, err := c.Call(t.Context(), request(read, "")); err != nil || w.rows[1].Credential != "byok" {
		t.Errorf("%v %+v", err, w.rows)
	}
}

// A tool that needs a listing of now is called by what the server has then.
func TestFreshListing(t *testing.T) {
	c, w := open(t)
	w.rule(toolrule.Rule{FreshListing: 10 * time.Second})
	w.refresh = func() error { return nil }
	if _, err := c.Call(t.Context(), request(read, "")); err != nil || !slices.Contains(w.steps, "refresh") {
		t.Errorf("%v, steps %v", err, w.steps)
	}
	w.refresh = func() error { w.tools[w.servers[0].Key()][0].Status = definition.Pending; return nil }
	_, err := c.Call(t.Context(), request(read, ""))
	wants(t, err, definition.ReasonUnreviewed)
	w.refresh = func() error { return errors.New("away") }
	_, err = c.Call(t.Context(), request(read, ""))
	wants(t, err, apierr.ReasonUnavailable)
	w.refresh = func() error { w.servers = nil; return nil }
	_, err = c.Call(t.Context(), request(read, ""))
	wants(t, err, apierr.ReasonNotFound)
	if len(w.sent) != 1 {
		t.Errorf("sent %d", len(w.sent))
	}
}
