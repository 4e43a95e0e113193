package toolcall

import (
	"encoding/json"
	"testing"

	"switchyard.dev/services/gateway/internal/governance/run"
	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/mcp/upstream"
	"switchyard.dev/services/gateway/internal/mcp/wire"
	"switchyard.dev/services/platform/apierr"
)

// capableQuery returns a query of a caller that can do everything.
func capableQuery(method, server, name string) *Query {
	r := able("")
	return &Query{Asker: r.Asker, Method: method, Server: server, Name: name, Client: r.Client}
}

// Prompts and resources take several rounds as calls of tools do, by the path of one server and by that of all.
func TestQueryRounds(t *testing.T) {
	for _, test := range []*Query{
		capableQuery(wire.MethodGetPrompt, "files", "sum"), capableQuery(wire.MethodGetPrompt, "", "fs__sum"),
		capableQuery(wire.MethodReadResource, "files", "file:///a"), capableQuery(wire.MethodReadResource, "", "file:///a"),
	} {
		c, w := offering(t)
		seals(t, c)
		w.grant.Run = &run.Run{}
		n := 0
		w.reply = func(*upstream.Query) (upstream.Result, error) {
			if n++; n == 1 {
				return asking(askName), nil
			}
			return upstream.Result{Kind: upstream.KindComplete, Text: json.RawMessage(`{"messages":[]}`)}, nil
		}
		first, err := c.Query(t.Context(), test)
		if err != nil || stateOf(first.Text) == "" || first.Kind != upstream.KindInputRequired || string(w.queried[0].Capabilities) != capable {
			t.Fatalf("%s %s: %s %v", test.Method, test.Server, first.Text, err)
		}
		second := *test
		second.Client.State, second.Client.Inputs = stateOf(first.Text), json.RawMessage("{"+ann+"}")
		for name, change := range map[string]func(q *Query){
			"another name":  func(q *Query) { q.Name += "2" },
			"another user":  func(q *Query) { q.User = "bob" },
			"another path":  func(q *Query) { q.Server = "docs" },
			"as a tool":     func(q *Query) { q.Method = wire.MethodComplete },
			"its arguments": func(q *Query) { q.Arguments = json.RawMessage(`{"x":"y"}`) },
		} {
			if test.Method == wire.MethodReadResource && name == "its arguments" {
				continue // It has none.
			}
			bad := second
			change(&bad)
			if _, err := c.Query(t.Context(), &bad); err == nil || len(w.queried) != 1 {
				t.Errorf("%s %s: %s: %v, sent %d", test.Method, test.Server, name, err, len(w.queried))
			}
		}
		answer, err := c.Query(t.Context(), &second)
		if err != nil || string(answer.Text) != `{"messages":[]}` || string(w.queried[1].Inputs) != "{"+ann+"}" || w.queried[1].State != "theirs" {
			t.Errorf("%s %s: %s %v", test.Method, test.Server, answer.Text, err)
		}
		if len(w.rows) != 2 || w.rows[0].Cost != 7e9 || w.rows[1].Cost != 0 {
			t.Errorf("%s %s: billed %+v", test.Method, test.Server, w.rows)
		}
		if _, err := c.Query(t.Context(), &second); err == nil || len(w.queried) != 2 {
			t.Errorf("used again: %v", err)
		}
	}
}

// Rounds of queries pass every check again, within one request as well.
func TestQueryRoundsAreChecked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(w *world)
		reason apierr.Reason
	}{
		"the server lost its trust": {func(w *world) { w.distrust() }, ReasonUntrusted},
		"a rule denies it": {func(w *world) {
			w.rule(toolrule.Rule{Methods: []string{wire.MethodGetPrompt}, Deny: true})
		}, toolrule.ReasonDenied},
		"the server is gone":  {func(w *world) { w.servers = nil }, apierr.ReasonNotFound},
		"it offers none":      {func(w *world) { w.servers[0].Features = nil }, ReasonNotOffered},
		"the ledger is full":  {func(w *world) { w.ready = errReset }, apierr.ReasonUnavailable},
		"trust can't be read": {func(w *world) { w.stale = errReset }, apierr.ReasonUnavailable},
	} {
		for _, inside := range []bool{false, true} {
			c, w := offering(t)
			seals(t, c)
			w.reply = func(*upstream.Query) (upstream.Result, error) { return asking(askName), nil }
			q := capableQuery(wire.MethodGetPrompt, "files", "sum")
			var err error
			if inside {
				q.Client.Ask = answering(func() { test.change(w) })
				_, err = c.Query(t.Context(), q)
			} else {
				first, failed := c.Query(t.Context(), q)
				if failed != nil {
					t.Fatal(failed)
				}
				test.change(w)
				q.Client.State = stateOf(first.Text)
				_, err = c.Query(t.Context(), q)
			}
			if wants(t, err, test.reason); len(w.queried) != 1 {
				t.Errorf("%s (%t): sent %d", name, inside, len(w.queried))
			}
		}
	}
}

// Completions are of one round: a server is shown nothing that it could ask.
func TestCompletionsAskNothing(t *testing.T) {
	c, w := offering(t)
	seals(t, c)
	q := capableQuery(wire.MethodComplete, "files", "sum")
	q.Arguments = json.RawMessage(`{"name":"a","value":"b"}`)
	if _, err := c.Query(t.Context(), q); err != nil || w.queried[0].Capabilities != nil {
		t.Errorf("%s %v", w.queried[0].Capabilities, err)
	}
}
