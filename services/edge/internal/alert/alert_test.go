package alert_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"switchyard.dev/services/edge/internal/alert"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/houseevent"
	"switchyard.dev/services/platform/testkit/growth"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rule() alert.Rule {
	return alert.Rule{
		Name: "spend", Types: []string{"switchyard.budget.*"}, Where: map[string]any{"percent": 80.0},
		To: []alert.Target{{Channel: alert.InApp, User: "ada"}, {Channel: alert.WebPush, User: "ada"}}, RepeatAfter: "1h",
	}
}

func TestCheck(t *testing.T) {
	all := rule()
	all.To = []alert.Target{
		{Channel: alert.InApp},
		{Channel: alert.Slack},
		{Channel: alert.Email, Email: "ada@example.com"},
		{Channel: alert.WebPush, Broadcast: true},
		{Channel: alert.Webhook, URL: "https://example.com/hook"},
	}
	if err := alert.Check([]alert.Rule{all}); err != nil {
		t.Error(err)
	}
	long := strings.Repeat("x", 3000)
	for name, tt := range map[string]struct {
		change func(*alert.Rule)
		field  string
	}{
		"no name":                {func(r *alert.Rule) { r.Name = "" }, "rules[0].name"},
		"a name of two lines":    {func(r *alert.Rule) { r.Name = "a\nb" }, "rules[0].name"},
		"no types":               {func(r *alert.Rule) { r.Types = nil }, "rules[0].types"},
		"a foreign type":         {func(r *alert.Rule) { r.Types = []string{"switchyard.a", "order.paid"} }, "rules[0].types[1]"},
		"a star inside":          {func(r *alert.Rule) { r.Types = []string{"switchyard.*.threshold"} }, "rules[0].types[0]"},
		"a value that is a list": {func(r *alert.Rule) { r.Where["percent"] = []any{80.0} }, "rules[0].where.percent"},
		"a long value":           {func(r *alert.Rule) { r.Where["percent"] = long }, "rules[0].where.percent"},
		"a field's name":         {func(r *alert.Rule) { r.Where = map[string]any{"a b": 1.0} }, "rules[0].where"},
		"a time":                 {func(r *alert.Rule) { r.RepeatAfter = "daily" }, "rules[0].repeat_after"},
		"a long time":            {func(r *alert.Rule) { r.RepeatAfter = "721h" }, "rules[0].repeat_after"},
		"no target":              {func(r *alert.Rule) { r.To = nil }, "rules[0].to"},
		"many targets":           {func(r *alert.Rule) { r.To = make([]alert.Target, 11) }, "rules[0].to"},
		"no channel":             {func(r *alert.Rule) { r.To[1].Channel = "sms" }, "rules[0].to[1].channel"},
		"a push to nobody":       {func(r *alert.Rule) { r.To[1].User = "" }, "rules[0].to[1].user_id"},
		"a push to all and one":  {func(r *alert.Rule) { r.To[1].Broadcast = true }, "rules[0].to[1].user_id"},
		"no address":             {func(r *alert.Rule) { r.To[1] = alert.Target{Channel: alert.Email, Email: "Ada <a@b.c>"} }, "rules[0].to[1].email"},
		"no URL":                 {func(r *alert.Rule) { r.To[1] = alert.Target{Channel: alert.Webhook, URL: "ftp://a"} }, "rules[0].to[1].url"},
		"another's field":        {func(r *alert.Rule) { r.To[0].URL = "https://a" }, "rules[0].to[0]"},
		"Slack with a secret":    {func(r *alert.Rule) { r.To[0] = alert.Target{Channel: alert.Slack, URL: "https://hooks.slack.com/x"} }, "rules[0].to[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			r := rule()
			tt.change(&r)
			e := apierr.From(alert.Check([]alert.Rule{r}))
			if e == nil || !strings.HasPrefix(e.Text, tt.field+":") || strings.Contains(e.Text, "xxx") {
				t.Errorf("%v, want a refusal of %s without the value", e, tt.field)
			}
		})
	}
	if e := apierr.From(alert.Check([]alert.Rule{rule(), rule()})); e == nil || !strings.HasPrefix(e.Text, "rules[1].name:") {
		t.Errorf("two rules of one name: %v", e)
	}
	if e := apierr.From(alert.Check(make([]alert.Rule, 51))); e == nil || !strings.HasPrefix(e.Text, "rules:") {
		t.Errorf("51 rules: %v", e)
	}
}

func TestMatches(t *testing.T) {
	data := map[string]any{"percent": 80.0, "budget": "key", "final": true, "list": []any{1.0}}
	for name, tt := range map[string]struct {
		types []string
		where map[string]any
		off   bool
		want  bool
	}{
		"the type":           {types: []string{"switchyard.budget.threshold"}, want: true},
		"a prefix":           {types: []string{"switchyard.run.*", "switchyard.budget.*"}, want: true},
		"all":                {types: []string{"switchyard.*"}, want: true},
		"another type":       {types: []string{"switchyard.budget"}},
		"half a word":        {types: []string{"switchyard.bud.*"}},
		"all fields":         {types: []string{"switchyard.*"}, where: map[string]any{"percent": 80.0, "budget": "key", "final": true}, want: true},
		"another value":      {types: []string{"switchyard.*"}, where: map[string]any{"percent": 80.0, "budget": "run"}},
		"another type of it": {types: []string{"switchyard.*"}, where: map[string]any{"percent": "80"}},
		"a field it lacks":   {types: []string{"switchyard.*"}, where: map[string]any{"tool": "x"}},
		"a list":             {types: []string{"switchyard.*"}, where: map[string]any{"list": 1.0}},
		"off":                {types: []string{"switchyard.*"}, off: true},
	} {
		r := alert.Rule{Types: tt.types, Where: tt.where}
		if tt.off {
			r.Enabled = new(false)
		}
		if got := r.Matches("switchyard.budget.threshold", data); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}

func TestText(t *testing.T) {
	for name, tt := range map[string]struct {
		event       alert.Event
		title, body string
	}{
		"a budget": {
			alert.Event{Type: "switchyard.budget.threshold", Data: map[string]any{"percent": 80.0, "budget": "organization", "subject": "acme", "spent_cents": 80.5, "ceiling_cents": 100.0}},
			"80 % of a budget is spent (organization acme)", "80.5 of 100 cents are spent. At 100 % calls are refused until the period ends or the ceiling is raised.",
		},
		"amounts that a float prints with an exponent": {
			alert.Event{Type: "switchyard.budget.threshold", Data: map[string]any{
				"percent": 80.0, "budget": "organization", "subject": "acme", "spent_cents": 0.00002, "ceiling_cents": 5000000.0,
			}},
			"80 % of a budget is spent (organization acme)", "0.00002 of 5000000 cents are spent. At 100 % calls are refused until the period ends or the ceiling is raised.",
		},
		"a limit of tokens": {
			alert.Event{Type: "switchyard.quota.reached", Data: map[string]any{
				"percent": 100.0, "limit": "tokens", "window": "day", "used": 5000000.5, "limit_value": 5000000.0, "plan": "pro", "period_start": "2026-01-02", "kind": "hard",
			}},
			"100 % of a limit is used: tokens in a day", "5000000.5 of 5000000 tokens of the plan pro are used in the day that began at 2026-01-02. At 100 % calls are refused until it ends.",
		},
		"an unknown type": {
			alert.Event{Type: "switchyard.new.thing", Subject: "thing/1"}, "switchyard.new.thing: thing/1", "switchyard.new.thing concerns thing/1.",
		},
		"a value that looks like a template": {
			alert.Event{Type: "switchyard.approval.pending", Data: map[string]any{"tool": "{{.data.ref}}\n\x00rm", "ref": "r1"}},
			`An approval waits: "{{.data[.]ref}} rm"`, "Asked for by: -\nTool: \"{{.data[.]ref}} rm\"\nApproval: r1\nExpires at: -",
		},
		"a value that looks like a sentence with a link": {
			alert.Event{Type: "switchyard.approval.pending", Data: map[string]any{
				"tool": "pay", "requested_by": "Security: sign in at https://evil.example/decisions . The system", "ref": "r1", "expires_at": "2026-01-02T03:04:05Z",
			}},
			"An approval waits: pay", "Asked for by: \"Security: sign in at https[:]//evil[.]example/decisions . The system\"\nTool: pay\nApproval: r1\nExpires at: 2026-01-02T03:04:05Z",
		},
		"a long value": {
			alert.Event{Type: "switchyard.new.thing", Subject: strings.Repeat("é", 5000)},
			"switchyard.new.thing: " + strings.Repeat("é", 64), "switchyard.new.thing concerns " + strings.Repeat("é", 64) + ".",
		},
	} {
		title, body := alert.Text(&tt.event)
		want := []string{strings.ReplaceAll(tt.title, "\x00", ""), strings.ReplaceAll(tt.body, "\x00", "")}
		if diff := cmp.Diff(want, []string{title, body}); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Each type of event has a text of its own, which needs nothing but what the type's example has.
func TestTextOfEachType(t *testing.T) {
	for _, e := range houseevent.Types() {
		var data map[string]any
		if err := json.Unmarshal(e.Example, &data); err != nil {
			t.Fatal(err)
		}
		title, body := alert.Text(&alert.Event{Type: e.Name, Subject: "subject", Data: data})
		if title == e.Name+": subject" || strings.Contains(body, "concerns subject") {
			t.Errorf("%s has no text", e.Name)
		}
		if len(title) > 100 || title == "" || strings.HasSuffix(title, ".") || !strings.HasSuffix(body, ".") && !strings.Contains(body, "\n") {
			t.Errorf("%s: title %q, body %q", e.Name, title, body)
		}
		if words := strings.Fields(title + " " + body); slices.Contains(words, "-") || slices.Contains(words, e.Name) {
			t.Errorf("%s: a value is missing: %q, %q", e.Name, title, body)
		}
	}
}

func FuzzCheck(f *testing.F) {
	text, _ := json.Marshal([]alert.Rule{rule()})
	f.Add(string(text))
	f.Add(`[{"name":"a","types":["switchyard.*"],"where":{"a":null},"to":[{"channel":"slack"}]}]`)
	f.Fuzz(func(t *testing.T, text string) {
		rules, err := alert.Decode([]byte(text))
		if err != nil || alert.Check(rules) != nil {
			return
		}
		e := &alert.Event{Type: "switchyard.budget.threshold", Data: map[string]any{"percent": text}}
		for i := range rules {
			if rules[i].Matches(e.Type, e.Data) && !rules[i].On() {
				t.Error("a rule that is off selects an event")
			}
		}
		if title, body := alert.Text(e); len(title) > 200 || len(body) > 2000 || strings.ContainsAny(title, "\n") {
			t.Errorf("text of %d and %d bytes", len(title), len(body))
		}
	})
}

func TestCheckGrowsLinearly(t *testing.T) {
	inputs := append(growth.Around(`[{"name":`, growth.JSON, "}]"), growth.Around(`[{"name":"a","types":["switchyard.*"],"where":`, growth.ValidJSON, "}]")...)
	growth.Linear(t, growth.EachText(inputs, func(text string) {
		if rules, err := alert.Decode([]byte(text)); err == nil {
			_ = alert.Check(rules)
		}
	})...)
}
