package api_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
)

// A body in the vendor's own form stays as it came as far as the vendor accepts it: settings that the model refuses are
// removed and named, and the rest of the body stays, also what only this form can carry.
func TestRelayedSettings(t *testing.T) {
	b := limitsBench(t)
	const own = `"logit_bias":{"50256":-100},"later":{"x":1}`
	for name, c := range map[string]struct {
		path, body string
		// gone lists the members that the vendor doesn't get. The answer names them, except for those in unnamed.
		gone, unnamed []string
	}{
		"a temperature":            {completions, `{"model":"openai/gpt-5","temperature":0.3,"n":2,`, []string{"temperature"}, nil},
		"two settings":             {completions, `{"model":"openai/gpt-5","top_p":0.3,"stop":["x"],`, []string{"top_p", "stop"}, nil},
		"penalties":                {completions, `{"model":"openai/gpt-5","presence_penalty":0.3,"frequency_penalty":1,`, []string{"presence_penalty", "frequency_penalty"}, nil},
		"a verbosity":              {completions, `{"model":"openai/gpt-4o","verbosity":"low",`, []string{"verbosity"}, nil},
		"one call at a time":       {completions, `{"model":"openai/o3","parallel_tool_calls":false,`, []string{"parallel_tool_calls"}, nil},
		"a default":                {completions, `{"model":"openai/gpt-5","temperature":1,`, nil, nil},
		"no reasoning asked for":   {completions, `{"model":"openai/gpt-5.2","temperature":0.3,`, nil, nil},
		"no reasoning":             {completions, `{"model":"openai/gpt-6","temperature":0.3,"reasoning_effort":"none",`, nil, nil},
		"reasoning by default":     {completions, `{"model":"openai/gpt-5.2-pro","temperature":0.3,`, []string{"temperature"}, nil},
		"Responses":                {responsesPath, `{"model":"responses/gpt-5","temperature":0.3,"store":false,`, []string{"temperature"}, nil},
		"Claude":                   {messagesPath, `{"model":"anthropic/claude-opus-4-7","max_tokens":9,"temperature":0.3,"top_p":0.5,"top_k":5,`, []string{"temperature", "top_p", "top_k"}, nil},
		"one of two":               {messagesPath, `{"model":"anthropic/claude-sonnet-4-5","max_tokens":9,"temperature":0.3,"top_p":0.5,"top_k":5,`, []string{"top_p"}, nil},
		"a default beside another": {messagesPath, `{"model":"anthropic/claude-sonnet-4-5","max_tokens":9,"temperature":1,"top_p":0.5,`, []string{"temperature"}, []string{"temperature"}},
		"all stops are blank":      {messagesPath, `{"model":"anthropic/claude-sonnet-4-5","max_tokens":9,"stop_sequences":["\n"],`, []string{"stop_sequences"}, nil},
	} {
		said := `"messages":[{"role":"user","content":"u"}],`
		if c.path == responsesPath {
			said = `"input":"u",`
		}
		got := b.say(t, "POST", c.path, c.body+said+own+"}")
		sent, named := b.vendor.last(), strings.Split(got.header.Get("X-Switchyard-Ignored"), ", ")
		if got.status != 200 || !strings.Contains(sent, own) {
			t.Errorf("%s: %d %s, sent %s", name, got.status, got.body, sent)
		}
		gjson.Parse(c.body + `"x":1}`).ForEach(func(key, _ gjson.Result) bool {
			gone, isNamed := slices.Contains(c.gone, key.Str), slices.Contains(named, key.Str)
			if key.Str != "x" && key.Str != "store" && (gjson.Get(sent, key.Str).Exists() == gone || isNamed != (gone && !slices.Contains(c.unnamed, key.Str))) {
				t.Errorf("%s: %s is named: %v, sent %s", name, key.Str, isNamed, sent)
			}
			return true
		})
	}
	got := b.say(t, "POST", messagesPath, `{"model":"anthropic/claude-sonnet-4-5","stop_sequences":["\n","END"],"top_k":5,`+anthropicMsg+`}`)
	if sent := b.vendor.last(); got.status != 200 || gjson.Get(sent, "stop_sequences").Raw != `["END"]` || gjson.Get(sent, "top_k").Int() != 5 {
		t.Errorf("%d, sent %s", got.status, sent)
	}
}

// A body that the vendor would refuse in its own form, but that no other form can carry, goes out as it came.
func TestRelayedWithoutAnotherForm(t *testing.T) {
	b := limitsBench(t)
	const order = `{"role":"user","content":"u"},{"role":"assistant","content":null,"tool_calls":[{"id":"abcdefghi","type":"function","function":{"name":"f","arguments":"{}"}}]},{"role":"tool","tool_call_id":"abcdefghi","content":"r"},{"role":"user","content":"go on"}`
	for body, relayed := range map[string]bool{
		`{"model":"mistral/m","messages":[` + order + `]}`:                                 false,
		`{"model":"mistral/m","safe_prompt":true,"messages":[` + order + `]}`:              false,
		`{"model":"mistral/m","n":2,"messages":[` + order + `]}`:                           true,
		`{"model":"mistral/m","messages":[{"role":"user","content":"u"}],"safe_prompt":1}`: true,
	} {
		got := b.say(t, "POST", completions, body)
		sent := gjson.Get(b.vendor.last(), "messages.#").Int()
		if want := gjson.Get(body, "messages.#").Int(); got.status != 200 || (sent == want) != relayed {
			t.Errorf("%s: %d, %d messages are sent", body, got.status, sent)
		}
		dropped := strings.Contains(got.header.Get("X-Switchyard-Ignored"), "safe_prompt")
		if unknown := strings.Contains(body, "safe_prompt"); dropped != (unknown && !relayed) {
			t.Errorf("%s: X-Switchyard-Ignored is %q", body, got.header.Get("X-Switchyard-Ignored"))
		}
	}
	const search = `{"type":"web_search","search_context_size":"low"}`
	got := b.say(t, "POST", responsesPath, `{"model":"responses/gpt-5","store":false,"temperature":0.3,"tools":[`+search+`],"input":[{"role":"user","content":"u"},`+
		`{"type":"function_call","call_id":"c1","name":"a.b","arguments":"{}"},{"type":"function_call_output","call_id":"c1","output":"r"}]}`)
	if sent := b.vendor.last(); got.status != 200 || !strings.Contains(sent, search) || gjson.Get(sent, "temperature").Exists() {
		t.Errorf("%d, sent %s", got.status, sent)
	}
}

// A relayed body asks for thinking in the form that its model accepts, on every host of Claude. Thinking that another
// setting excludes is switched off, and named.
func TestRelayedThinking(t *testing.T) {
	b := limitsBench(t)
	const thinks = `"max_tokens":9000,"thinking":{"type":"enabled","budget_tokens":5000},"messages":[{"role":"user","content":"u"}]`
	// Each value lists the thinking type and the effort that the vendor receives, and the ignored fields.
	for body, want := range map[string]string{
		`{"model":"anthropic/claude-sonnet-4-5",` + thinks + `}`:                                                                                      "enabled,,",
		`{"model":"anthropic/claude-sonnet-4-5","temperature":1,` + thinks + `}`:                                                                      "enabled,,",
		`{"model":"anthropic/claude-sonnet-4-5","temperature":0.3,` + thinks + `}`:                                                                    "disabled,,thinking",
		`{"model":"anthropic/claude-sonnet-4-5","tools":[{"name":"f","input_schema":{"type":"object"}}],"tool_choice":{"type":"any"},` + thinks + `}`: "disabled,,thinking",
		`{"model":"anthropic/claude-opus-4-7","temperature":0.3,` + thinks + `}`:                                                                      "adaptive,low,temperature",
		`{"model":"anthropic/claude-opus-4-7",` + thinks + `}`:                                                                                        "adaptive,low,",
		`{"model":"anthropic/claude-sonnet-4-5","output_config":{"effort":"high"},` + thinks + `}`:                                                    "enabled,,output_config.effort",
		`{"model":"anthropic/claude-sonnet-4-5","output_config":{"effort":"low"},` + strings.Replace(thinks, `"enabled"`, `"adaptive"`, 1) + `}`:      "enabled,,",
	} {
		got := b.say(t, "POST", messagesPath, body)
		sent := b.vendor.last()
		is := gjson.Get(sent, "thinking.type").Str + "," + gjson.Get(sent, "output_config.effort").Str + "," + got.header.Get("X-Switchyard-Ignored")
		if got.status != 200 || is != want {
			t.Errorf("%s: %d, %s; want %s", body, got.status, is, want)
		}
	}
}

// Another host of the model serves what a relayed body's vendor would refuse in any form.
func TestRelayedToTheNextCandidate(t *testing.T) {
	b := setupWith(t, `default_model: first/m
providers:
  - {name: first, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [{name: m, upstream: claude-opus-4-7, identity: same}]}
  - {name: second, dialect: openai, base_url: %[1]s, key_file: first.key, models: [{name: m, identity: same}]}
`)
	b.vendor.mu.Lock()
	b.vendor.fails = limitedVendor
	b.vendor.mu.Unlock()
	before := b.vendor.count()
	got := b.say(t, "POST", messagesPath, `{"model":"first/m","max_tokens":9,"messages":[{"role":"user","content":"u"},{"role":"assistant","content":"I say"}]}`)
	if n := b.vendor.count() - before; got.status != 200 || got.header.Get("X-Switchyard-Provider") != "second" || n != 1 {
		t.Errorf("%d %s by %s after %d calls", got.status, got.body, got.header.Get("X-Switchyard-Provider"), n)
	}
}
