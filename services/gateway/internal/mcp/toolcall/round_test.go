package toolcall

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/gateway/internal/mcp/ticket"
	"switchyard.dev/services/gateway/internal/mcp/ticket/tickettest"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/platform/apierr"
)

// What a server asks is put to its caller, and the answers go back with the server's own state. The call is billed and
// counted once.
func TestRounds(t *testing.T) {
	c, w, used := roundly(t, asking(askName, askModel, askRoots), asking(), done)
	w.grant.Run = &run.Run{}
	r := able(`{"a":1}`)
	first := begin(t, c, r)
	const asked = `{"name":{"method":"elicitation/create","params":{"mode":"form","message":"files: Who?","requestedSchema":{"type":"object","properties":{"name":{"type":"string"}},"required":["name"]}}},` +
		`"model":{"method":"sampling/createMessage","params":{"messages":[],"maxTokens":9}},"roots":{"method":"roots/list","params":{}}}`
	if got := requestsOf(first.Text); got != asked {
		t.Errorf("asked\n%s, want\n%s", got, asked)
	}
	if sent := w.sent[0]; string(sent.Capabilities) != capable || sent.Inputs != nil || sent.State != "" {
		t.Errorf("sent %+v", sent)
	}
	if text := string(first.Text); strings.Contains(text, "theirs") || strings.Contains(text, "$ref") {
		t.Errorf("the server's own: %s", text)
	}
	if w.records[0].Answer != nil {
		t.Error("what a server asks is recorded")
	}
	second := next(r, first, ann+`,"other":{"action":"accept"},"roots":{"roots":[{"uri":"file:///a","x":1}]}`)
	answer, err := c.Call(t.Context(), second)
	if err != nil || requestsOf(answer.Text) != "" || stateOf(answer.Text) == "" { // A state alone.
		t.Fatalf("%s %v", answer.Text, err)
	}
	if sent := w.sent[1]; string(sent.Inputs) != `{`+ann+`,"roots":{"roots":[{"uri":"file:///a"}]}}` || sent.State != "theirs" || string(sent.Arguments) != `{"a":1}` {
		t.Errorf("sent %s %q", sent.Inputs, sent.State)
	}
	if answer, err = c.Call(t.Context(), next(second, answer, "")); err != nil || string(answer.Text) != string(done.Text) {
		t.Fatalf("%s %v", answer.Text, err)
	}
	if len(w.rows) != 3 || len(w.counted) != 1 || len(w.reserved) != 1 || len(used.used) != 2 {
		t.Fatalf("%d rows, counted %d, reserved %v, used %v", len(w.rows), len(w.counted), w.reserved, used.used)
	}
	for i, row := range w.rows {
		cost := row.Cost == 0
		if i == 0 {
			cost = row.Cost == 7e9
		}
		if !cost || row.RequestID != "r1" || row.Outcome != ledger.OutcomeCompleted || i > 0 && row.ID == w.rows[i-1].ID {
			t.Errorf("row %d: %+v", i, row)
		}
	}
	if w.records[2].Request.ID != "r1++" {
		t.Errorf("recorded as %s", w.records[2].Request.ID)
	}
}

// Servers are shown nothing that a caller can't be asked, or the policy does not let through.
func TestOffered(t *testing.T) {
	for name, test := range map[string]struct {
		capabilities string
		by           toolrule.SamplingBy
		sampler      bool
		want         string
	}{
		"nothing":                    {"", "", true, ""},
		"what the caller can do":     {capable, "", true, capable},
		"forms alone":                {`{"elicitation":{}}`, "", true, `{"elicitation":{"form":{}}}`},
		"no samplings":               {capable, toolrule.SamplingRefused, true, `{"elicitation":{"form":{},"url":{}},"roots":{}}`},
		"samplings by the gateway":   {`{"roots":{}}`, toolrule.SamplingByGateway, true, `{"sampling":{},"roots":{}}`},
		"samplings that no one does": {capable, toolrule.SamplingByGateway, false, `{"elicitation":{"form":{},"url":{}},"roots":{}}`},
	} {
		c, w, _ := roundly(t, done)
		if test.by != "" {
			w.settings.Sampling = []toolrule.SamplingRule{{Sampling: toolrule.Sampling{By: test.by}}}
		}
		if test.sampler {
			c.Sampler = &sampler{}
		}
		r := request(read, "{}")
		if test.capabilities != "" {
			r.Client.Capabilities = json.RawMessage(test.capabilities)
		}
		if _, err := c.Call(t.Context(), r); err != nil || string(w.sent[0].Capabilities) != test.want {
			t.Errorf("%s: %s %v, want %s", name, w.sent[0].Capabilities, err, test.want)
		}
		c.Tickets = nil
		if _, err := c.Call(t.Context(), r); err != nil || w.sent[1].Capabilities != nil {
			t.Errorf("%s, without keys: %s %v", name, w.sent[1].Capabilities, err)
		}
	}
	c, w, _ := roundly(t, asking(askName))
	c.Claims = nil
	_, err := c.Call(t.Context(), able("{}"))
	if wants(t, err, apierr.ReasonNotImplemented); w.sent[0].Capabilities != nil {
		t.Errorf("without a store: %s", w.sent[0].Capabilities)
	}
}

// A state is of use to its own caller, for the same call, until it expires, and once.
func TestStatesAreBound(t *testing.T) {
	now := time.Now()
	c, w, used := roundly(t, asking(askName), asking(askName), done)
	c.Tickets.Now = func() time.Time { return now }
	reviewed := w.tools[w.servers[0].Key()]
	w.servers[0].Organization = "" // All organizations may call it.
	w.tools[w.servers[0].Key()] = reviewed
	other := &toolserver.Server{Organization: "acme", ID: "other", Prefix: "ot", URL: "https://files.example", Timeout: time.Minute, Version: 3}
	w.servers = append(w.servers, other)
	w.tools[other.Key()] = reviewed
	w.levels["other"] = w.levels["files"]
	r := able(`{"a":1}`)
	first := begin(t, c, r)
	good := next(r, first, ann)
	refuses := func(name string, r *Request) {
		t.Helper()
		_, err := c.Call(t.Context(), r)
		if shown, ok := errors.AsType[*apierr.Error](err); !ok || shown.Kind != apierr.KindInvalid || !strings.HasPrefix(shown.Text, "params.requestState: ") || len(w.sent) != 1 {
			t.Errorf("%s: %v, sent %d", name, err, len(w.sent))
		}
	}
	for name, change := range map[string]func(r *Request){
		"another organization": func(r *Request) { r.Organization = "acme-2" },
		"another key":          func(r *Request) { r.Key = "k2" },
		"rotated by terms":     func(r *Request) { r.KeyTerms.Key = "k2" },
		"another service":      func(r *Request) { r.Service = "core" },
		"another user":         func(r *Request) { r.User = "bob" },
		"another run":          func(r *Request) { r.Run = "run-2" },
		"no run":               func(r *Request) { r.Run = "" },
		"another tool":         func(r *Request) { r.Tool.Tool = "write" },
		"another server":       func(r *Request) { r.Tool.Server = "other" },
		"another path":         func(r *Request) { r.Tool = Name{"", "fs__read"} },
		"other arguments":      func(r *Request) { r.Arguments = json.RawMessage(`{"a":2}`) },
		"cut":                  func(r *Request) { r.Client.State = r.Client.State[:len(r.Client.State)-1] },
		"tampered":             func(r *Request) { r.Client.State += "-TAMPERED" },
		"none":                 func(r *Request) { r.Client.State = "theirs" },
		"of another purpose": func(r *Request) {
			r.Client.State, _ = c.Tickets.Seal("acme", roundPurpose+"s", pending{}, now.Add(time.Hour))
		},
		"of another key file": func(r *Request) {
			others := ticket.Tickets{Sealer: tickettest.Keys(t, tickettest.Second)}
			r.Client.State, _ = others.Seal("acme", roundPurpose, pending{}, now.Add(time.Hour))
		},
	} {
		bad := *good
		change(&bad)
		refuses(name, &bad)
	}
	newer := append([]definition.Reviewed{}, reviewed...)
	newer[0].Digest[31]++
	w.tools[w.servers[0].Key()] = newer
	refuses("another definition", good)
	w.tools[w.servers[0].Key()] = reviewed
	w.servers[0].URL = "https://evil.example"
	refuses("another place", good)
	w.servers[0].URL = "https://files.example"
	c.Claims = nil
	refuses("without a store", good)
	c.Claims = used
	used.err = errReset
	_, err := c.Call(t.Context(), good)
	if wants(t, err, apierr.ReasonUnavailable); len(w.sent) != 1 {
		t.Errorf("while the store is away: sent %d", len(w.sent))
	}
	used.err = nil
	later := now
	now = now.Add(roundsTime + time.Second)
	refuses("expired", good)
	now = later

	same := *good
	same.Arguments = json.RawMessage(` { "a" : 1.0 } `)
	if _, err := c.Call(t.Context(), &same); err != nil || len(w.sent) != 2 {
		t.Fatalf("the same call: %v", err)
	}
	for range 2 {
		_, err := c.Call(t.Context(), good)
		wants(t, err, apierr.ReasonInvalidRequest)
	}
	if len(w.sent) != 2 || len(w.rows) != 2 {
		t.Errorf("used again: sent %d, billed %d", len(w.sent), len(w.rows))
	}
}

// Answers without a state are to nothing: the call is a new one.
func TestAnswersWithoutState(t *testing.T) {
	c, w, _ := roundly(t, asking(askName))
	r := able("{}")
	r.Client.Inputs = json.RawMessage("{" + ann + "}")
	begin(t, c, r)
	if w.sent[0].Inputs != nil || w.rows[0].Cost != 7e9 {
		t.Errorf("sent %s, billed %d", w.sent[0].Inputs, w.rows[0].Cost)
	}
}

// A caller that answers by the wrong rules can try again with the same state. What it leaves out, the server asks again.
func TestAnswersAreChecked(t *testing.T) {
	c, w, used := roundly(t, asking(askName, askRoots), done)
	r := able("{}")
	first := begin(t, c, r)
	many := strings.TrimSuffix(strings.Repeat(`"x":1,`, maxInputs+1), ",")
	for inputs, field := range map[string]string{
		`"name":{"action":"accept","content":{"name":1}}`: "params.inputResponses.name.content.name: ",
		`"name":{"action":"accept","content":{}}`:         "params.inputResponses.name.content.name: ",
		`"name":{"action":"maybe"}`:                       "params.inputResponses.name.action: ",
		`"name":[]`:                                       "params.inputResponses.name.answer: ",
		`"roots":{"roots":1}`:                             "params.inputResponses.roots.roots: ",
		many:                                              "params.inputResponses: ",
	} {
		_, err := c.Call(t.Context(), next(r, first, inputs))
		if wants(t, err, apierr.ReasonInvalidRequest); err == nil || !strings.HasPrefix(err.Error(), field) || len(w.sent) != 1 || len(used.used) != 0 {
			t.Errorf("%.60s: %v, want %s; sent %d", inputs, err, field, len(w.sent))
		}
	}
	if _, err := c.Call(t.Context(), next(r, first, `"x":{"action":"no"}`)); err != nil || string(w.sent[1].Inputs) != "{}" {
		t.Errorf("none of the answers: %v, sent %s", err, w.sent[1].Inputs)
	}
}

// A round of which nothing has left can be made again.
func TestUnsentRound(t *testing.T) {
	c, w, used := roundly(t, asking(askName))
	r := able("{}")
	first := begin(t, c, r)
	w.answers(done)
	answer := w.answer
	w.answer = func(ctx context.Context, call *upstream.Call) (upstream.Result, error) {
		return upstream.Result{}, &upstream.Error{Cause: upstream.CauseUnreachable, Err: errReset}
	}
	_, err := c.Call(t.Context(), next(r, first, ann))
	if wants(t, err, apierr.ReasonUnavailable); used.given != 1 || len(w.rows) != 1 {
		t.Errorf("given back %d, billed %d", used.given, len(w.rows))
	}
	w.answer = answer
	if _, err := c.Call(t.Context(), next(r, first, ann)); err != nil {
		t.Error(err)
	}
}

// Every later round passes every check again.
func TestRoundsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		reason apierr.Reason
	}{
		"the admission refuses":     {func(w *world) { w.refused = run.ErrRevoked }, run.ReasonRevoked},
		"the run may no longer":     {func(w *world) { w.grant.Run = &run.Run{Limits: run.Limits{AllowedTools: []string{"x/y"}}} }, run.ReasonToolNotAllowed},
		"the server lost its trust": {func(w *world) { w.distrust() }, ReasonUntrusted},
		"trust can't be read":       {func(w *world) { w.stale = errReset }, apierr.ReasonUnavailable},
		"the definition changed": {func(w *world) {
			w.tools[w.servers[0].Key()] = []definition.Reviewed{changedTool(w)}
		}, definition.ReasonUnreviewed},
		"a rule denies it":            {func(w *world) { w.rule(toolrule.Rule{Deny: true}) }, toolrule.ReasonDenied},
		"a rule denies its arguments": {func(w *world) { w.rule(toolrule.Rule{When: "args.a == 1", Deny: true}) }, toolrule.ReasonDenied},
		"a rule wants an approval":    {func(w *world) { w.rule(toolrule.Rule{Approval: true, Approvers: "ops"}) }, ReasonApprovalRequired},
		"the server is gone":          {func(w *world) { w.servers = nil }, apierr.ReasonNotFound},
		"the ledger is full":          {func(w *world) { w.ready = errReset }, apierr.ReasonUnavailable},
	} {
		for _, inside := range []bool{false, true} { // Between two requests, or within one.
			c, w, used := roundly(t, asking(askName), done)
			r := able(`{"a":1}`)
			var err error
			if inside {
				r.Client.Ask = answering(func() { test.change(w) })
				_, err = c.Call(t.Context(), r)
			} else {
				first := begin(t, c, r)
				test.change(w)
				_, err = c.Call(t.Context(), next(r, first, ann))
			}
			if inside && (w.refused != nil || w.grant.Run != nil) { // A change of those ends the request itself.
				continue
			}
			if wants(t, err, test.reason); len(w.sent) != 1 || len(w.rows) != 1 || len(used.used) != 0 {
				t.Errorf("%s (%t): sent %d, billed %d, used %v", name, inside, len(w.sent), len(w.rows), used.used)
			}
		}
	}
}
