package toolcall

import (
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/governance/toolrule"
	"switchyard.dev/services/gateway/internal/governance/trust"
	"switchyard.dev/services/gateway/internal/mcp/definition"
	"switchyard.dev/services/platform/testkit/growth"
)

// A later round reaches the server exactly if everything holds that a call needs at that moment, and it is the same
// call of the same caller with a state that was not used; and it costs nothing.
func TestRoundsReachServersOnlyChecked(t *testing.T) {
	c, w := open(t)
	seals(t, c)
	rapid.Check(t, func(t *rapid.T) {
		files := w.servers[0]
		files.URL = "https://files.example"
		w.tools[files.Key()] = []definition.Reviewed{tool(files, "read"), tool(files, "write")}
		w.levels = map[string]trust.Level{"files": trust.Community}
		w.settings, w.ready, w.refused = toolrule.Settings{}, nil, nil
		w.sent, w.rows, w.records, w.steps, w.used, w.counted = nil, nil, nil, nil, nil, nil
		w.answers(asking(askName), done)
		r := able(`{"a":1}`)
		first, err := c.Call(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		second := next(r, first, ann)
		breaks := rapid.SliceOfNDistinct(rapid.IntRange(0, 13), 0, 2, rapid.ID).Draw(t, "breaks")
		uses := 1
		for _, one := range breaks {
			switch one {
			case 0:
				w.levels = map[string]trust.Level{}
			case 1:
				w.rule(toolrule.Rule{Deny: true})
			case 2:
				w.rule(toolrule.Rule{When: "args.a == 1", Approval: true, Approvers: "ops"})
			case 3:
				w.tools[files.Key()] = []definition.Reviewed{changedTool(w)}
			case 4:
				w.ready = errReset
			case 5:
				w.refused = errReset
			case 6:
				second.User = "bob"
			case 7:
				second.Tool.Tool = "write"
			case 8:
				second.Arguments = json.RawMessage(`{"a":2}`)
			case 9:
				second.Client.State = second.Client.State[1:]
			case 10:
				second.Client.Inputs = json.RawMessage(`{"name":{"action":"accept","content":{"x":1}}}`)
			case 11:
				files.URL = "https://elsewhere.example"
			case 12:
				second.Run = ""
			case 13:
				uses = 2
			}
		}
		fails := len(breaks) > 0 && (uses == 1 || len(breaks) > 1)
		for range uses {
			_, err = c.Call(t.Context(), second)
		}
		if sent := 2; fails {
			if err == nil || len(w.sent) != 1 || len(w.rows) != 1 {
				t.Fatalf("%v: %v, sent %d, billed %d", breaks, err, len(w.sent), len(w.rows))
			}
		} else if len(w.sent) != sent || len(w.rows) != sent || w.rows[1].Cost != 0 || (err == nil) != (uses == 1) || len(w.counted) != 1 {
			t.Fatalf("%v: %v, sent %d, billed %+v, counted %d", breaks, err, len(w.sent), w.rows, len(w.counted))
		}
	})
}

func TestRoundsGrowLinearly(t *testing.T) {
	c, w, _ := roundly(t, done)
	x := execution{caller: c, request: able("{}"), server: w.servers[0], policy: w.policy()}
	growth.Linear(t, growth.Each(growth.ValidJSON, func(text []byte) {
		requests, _, err := readRequired(text)
		if err == nil {
			_, _, _ = x.fulfil(t.Context(), requests)
		}
		_, _ = answersOf(requests, text)
	})...)
}
