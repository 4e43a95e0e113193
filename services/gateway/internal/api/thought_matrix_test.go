package api_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// thinks makes the vendor answer with reasoning and a call, whole or streamed. members is the JSON with the reasoning.
func (b *bench) thinks(members string) {
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		const call = `"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"Read","arguments":"{}"}}]`
		switch {
		case strings.HasSuffix(r.URL.Path, "/messages"):
			_, _ = io.WriteString(w, `{"type":"message","content":[{"type":"text","text":"done"}],"stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":2}}`)
		case !gjson.GetBytes(body, "stream").Bool():
			_, _ = io.WriteString(w, `{"choices":[{"message":{"role":"assistant","content":null,`+members+`,`+call+`},"finish_reason":"tool_calls"}],`+usageOA+`}`)
		default:
			w.Header().Set("Content-Type", "text/event-stream")
			for _, delta := range []string{members, call} {
				_, _ = io.WriteString(w, `data: {"choices":[{"delta":{`+delta+`}}]}`+"\n\n")
			}
			_, _ = io.WriteString(w, `data: {"choices":[{"delta":{},"finish_reason":"tool_calls"}],`+usageOA+"}\n\ndata: [DONE]\n\n")
		}
	}
}

// toolLoop is a face's tool loop: the first request, and the next one with the first answer and a tool result.
type toolLoop struct {
	first func(model string, stream bool) (path, body string)
	next  func(t *testing.T, model, answer string) (path, body string)
}

const (
	readToolSet = `"tools":[{"type":"function","function":{"name":"Read","parameters":{"type":"object"}}}]`
	askedToRead = `{"role":"user","content":"hi"}`
)

func withStream(body string, stream bool) string {
	if !stream {
		return body
	}
	return `{"stream":true,` + body[1:]
}

func isWhole(answer string) bool { return strings.HasPrefix(answer, "{") }

// dataOf returns the JSON data of a stream's events.
func dataOf(stream string) (events []gjson.Result) {
	for line := range strings.Lines(stream) {
		if data, ok := strings.CutPrefix(line, "data: {"); ok {
			events = append(events, gjson.Parse("{"+strings.TrimSpace(data)))
		}
	}
	return events
}

// messagesContent returns the content of a Messages answer. It assembles a stream as an SDK does.
func messagesContent(answer string) string {
	if isWhole(answer) {
		return gjson.Get(answer, "content").Raw
	}
	var blocks []map[string]any
	for _, e := range dataOf(answer) {
		switch e.Get("type").Str {
		case "content_block_start":
			var block map[string]any
			_ = json.Unmarshal([]byte(e.Get("content_block").Raw), &block)
			blocks = append(blocks, block)
		case "content_block_delta":
			last := blocks[len(blocks)-1]
			for _, name := range []string{"thinking", "signature"} {
				if piece := e.Get("delta." + name); piece.Exists() {
					old, _ := last[name].(string)
					last[name] = old + piece.Str
				}
			}
		}
	}
	text, _ := json.Marshal(blocks)
	return string(text)
}

// contentParts returns the parts of a generateContent answer.
func contentParts(answer string) string {
	if isWhole(answer) {
		return gjson.Get(answer, "candidates.0.content.parts").Raw
	}
	var parts []string
	for _, e := range dataOf(answer) {
		for _, part := range e.Get("candidates.0.content.parts").Array() {
			parts = append(parts, part.Raw)
		}
	}
	return "[" + strings.Join(parts, ",") + "]"
}

// responseObject returns the response object of a Responses answer.
func responseObject(answer string) gjson.Result {
	if isWhole(answer) {
		return gjson.Parse(answer)
	}
	events := dataOf(answer)
	return events[len(events)-1].Get("response")
}

const (
	responsesTool = `"tools":[{"type":"function","name":"Read"}]`
	responsesAsk  = `{"role":"user","content":"hi"}`
	callOutput    = `{"type":"function_call_output","call_id":"call_a","output":"data"}`
)

func messagesBody(model, rest string) string {
	return `{"model":"` + model + `","max_tokens":4000,"thinking":{"type":"enabled","budget_tokens":2048},"tools":[{"name":"Read","input_schema":{"type":"object"}}],"messages":[` + askedToRead + rest + `]}`
}

func messagesNext(model, content string) string {
	return messagesBody(model, `,{"role":"assistant","content":`+content+`},{"role":"user","content":[{"type":"tool_result","tool_use_id":"call_a","content":"data"}]}`)
}

func generateBody(thoughts, rest string) string {
	return `{` + thoughts + `"tools":[{"functionDeclarations":[{"name":"Read"}]}],"contents":[{"role":"user","parts":[{"text":"hi"}]}` + rest + `]}`
}

const showsThoughts = `"generationConfig":{"thinkingConfig":{"includeThoughts":true}},`

func generates(model string, stream bool) string {
	if stream {
		return models + model + ":streamGenerateContent?alt=sse"
	}
	return models + model + ":generateContent"
}

func generateLoop(thoughts string) toolLoop {
	return toolLoop{
		func(model string, stream bool) (string, string) {
			return generates(model, stream), generateBody(thoughts, "")
		},
		func(_ *testing.T, model, answer string) (string, string) {
			return generates(model, false), generateBody(thoughts, `,{"role":"model","parts":`+contentParts(answer)+
				`},{"role":"user","parts":[{"functionResponse":{"id":"call_a","name":"Read","response":{"output":"data"}}}]}`)
		},
	}
}

var toolLoops = map[string]toolLoop{
	"JSON": {
		func(model string, _ bool) (string, string) {
			return chatPath, `{"model":"` + model + `",` + readToolSet + `,"messages":[` + askedToRead + `]}`
		},
		func(_ *testing.T, model, answer string) (string, string) {
			return chatPath, `{"model":"` + model + `",` + readToolSet + `,"messages":[` + askedToRead + `,{"role":"assistant","tool_calls":` +
				gjson.Get(answer, "tool_calls").Raw + `},{"role":"tool","tool_call_id":"call_a","content":"data"}]}`
		},
	},
	"messages": {
		func(model string, stream bool) (string, string) {
			return messagesPath, withStream(messagesBody(model, ""), stream)
		},
		func(_ *testing.T, model, answer string) (string, string) {
			return messagesPath, messagesNext(model, messagesContent(answer))
		},
	},
	"messages of an SDK that drops members": {
		func(model string, stream bool) (string, string) {
			return messagesPath, withStream(messagesBody(model, ""), stream)
		},
		func(t *testing.T, model, answer string) (string, string) {
			t.Helper()
			content, err := sjson.Delete(messagesContent(answer), "1.extra_content")
			if err != nil {
				t.Fatal(err)
			}
			return messagesPath, messagesNext(model, content)
		},
	},
	"generateContent":               generateLoop(""),
	"generateContent with thoughts": generateLoop(showsThoughts),
	"responses": {
		func(model string, stream bool) (string, string) {
			return responsesPath, withStream(`{"model":"`+model+`","store":false,`+responsesTool+`,"input":[`+responsesAsk+`]}`, stream)
		},
		func(_ *testing.T, model, answer string) (string, string) {
			output := responseObject(answer).Get("output").Raw
			return responsesPath, `{"model":"` + model + `","store":false,` + responsesTool + `,"input":[` + responsesAsk + `,` + output[1:len(output)-1] + `,` + callOutput + `]}`
		},
	},
	"responses without encrypted content": {
		func(model string, stream bool) (string, string) {
			return responsesPath, withStream(`{"model":"`+model+`","store":false,`+responsesTool+`,"input":[`+responsesAsk+`]}`, stream)
		},
		func(t *testing.T, model, answer string) (string, string) {
			t.Helper()
			output, err := sjson.Delete(responseObject(answer).Get("output").Raw, "0.encrypted_content")
			if err != nil {
				t.Fatal(err)
			}
			return responsesPath, `{"model":"` + model + `","store":false,` + responsesTool + `,"input":[` + responsesAsk + `,` + output[1:len(output)-1] + `,` + callOutput + `]}`
		},
	},
	"stored responses": {
		func(model string, stream bool) (string, string) {
			return responsesPath, withStream(`{"model":"`+model+`",`+responsesTool+`,"input":[`+responsesAsk+`]}`, stream)
		},
		func(_ *testing.T, model, answer string) (string, string) {
			return responsesPath, `{"model":"` + model + `","previous_response_id":"` + responseObject(answer).Get("id").Str + `",` + responsesTool + `,"input":[` + callOutput + `]}`
		},
	},
}

// textLoops names the loops in which only the reasoning's text comes back, not which provider wrote it.
var textLoops = map[string]bool{"messages of an SDK that drops members": true, "responses without encrypted content": true}

// On every face, the reasoning that led to a call goes back to the server that wrote it, in that server's member.
// Another server of the dialect gets it if it accepts others' reasoning. All other providers serve without it, and the
// answer says so.
func TestReasoningReturnsToItsServer(t *testing.T) {
	b := setupWith(t, answersPolicy)
	const (
		content   = `"reasoning_content":"I should look"`
		reasoning = `"reasoning":"I should look"`
		details   = `"reasoning_details":[{"type":"reasoning.text","text":"I should look","signature":"S","format":"anthropic-claude-v1","index":0}]`
	)
	const signature = `"signature":"S"`
	for _, c := range []struct{ first, next, written, want string }{
		{"thinker", "thinker", content, content},
		{"router", "router", reasoning + "," + details, signature},
		{"router", "thinker", reasoning + "," + details, content},
		{"thinker", "router", content, reasoning},
		{"plain", "plain", content, content},
		{"plain", "plain", reasoning, reasoning},
		{"thinker", "plain", content, ""},
		{"thinker", "anthropic", content, ""},
	} {
		for name, loop := range toolLoops {
			for _, stream := range []bool{false, true} {
				if stream && name == "JSON" || textLoops[name] && (c.want == signature || c.first == "plain") {
					continue // JSON streams have no SDK to join deltas, and textLoops don't keep the provider.
				}
				t.Run(c.first+" to "+c.next+" on "+name+": "+c.written[:12], func(t *testing.T) {
					b.thinks(c.written)
					path, body := loop.first(c.first+"/m", stream)
					first := b.say(t, "POST", path, body)
					if first.status != http.StatusOK {
						t.Fatalf("%d %s", first.status, first.body)
					}
					path, body = loop.next(t, c.next+"/m", first.body)
					second := b.say(t, "POST", path, body)
					sent := b.vendor.last()
					switch ignored := second.header.Get("X-Switchyard-Ignored"); {
					case second.status != http.StatusOK:
						t.Errorf("%d %s", second.status, second.body)
					case c.want != "" && !strings.Contains(sent, c.want):
						t.Errorf("%s is not in %s", c.want, sent)
					case c.want == "" && (strings.Contains(sent, "I should look") || ignored == ""):
						t.Errorf("ignored %q, sent %s", ignored, sent)
					case c.want != "" && (strings.Contains(ignored, "thinking,") || strings.Contains(ignored, "encrypted") || strings.Contains(ignored, "thought")):
						t.Errorf("ignored %q although it was sent", ignored)
					case strings.Contains(sent, `"openai":{`) || strings.Contains(sent, "switchyard"):
						t.Errorf("the gateway's own state was sent: %s", sent)
					}
				})
			}
		}
	}
}

// A server that refuses calls without reasoning gets a blank as the reasoning of calls that others made.
func TestCallsWithoutReasoning(t *testing.T) {
	b := setupWith(t, answersPolicy)
	b.thinks(`"reasoning_content":"Hm."`)
	claude := `[{"type":"thinking","thinking":"secret of Claude","signature":"EqQB"},{"type":"tool_use","id":"call_a","name":"Read","input":{}}]`
	got := b.say(t, "POST", messagesPath, messagesNext("thinker/m", claude))
	if sent := b.vendor.last(); got.status != http.StatusOK || !strings.Contains(sent, `"reasoning_content":" "`) || strings.Contains(sent, "EqQB") {
		t.Errorf("%d, sent %s", got.status, sent)
	}
	if ignored := got.header.Get("X-Switchyard-Ignored"); !strings.Contains(ignored, "thinking") {
		t.Errorf("ignored %q, want thinking", ignored)
	}
}

// A relayed body that is sent without some fields, because the vendor would refuse another vendor's turns with them,
// names these fields.
func TestFieldsLeftOutOfRelayedBodies(t *testing.T) {
	b := setupWith(t, answersPolicy+`  - {name: strict, dialect: openai, base_url: %[1]s, key_file: first.key, models: [m], api_version: "2024-10-21"}`+"\n")
	b.thinks(`"reasoning_content":"Hm."`)
	const (
		use   = `[{"type":"tool_use","id":"call_a","name":"Read","input":{}}]`
		calls = `"tool_calls":[{"id":"call_a","type":"function","function":{"name":"Read","arguments":"{}"}}]},{"role":"tool","tool_call_id":"call_a","content":"data"}`
	)
	chat := func(model, members string) string {
		return `{"model":"` + model + `",` + readToolSet + `,"messages":[` + askedToRead + `,{"role":"assistant",` + members + calls + `]}`
	}
	for name, c := range map[string]struct{ path, body, ignored string }{
		"thinking after others' calls": {messagesPath, messagesNext("anthropic/m", use), "thinking"},
		"thinking switched off":        {messagesPath, strings.Replace(messagesNext("anthropic/m", use), `"enabled","budget_tokens":2048`, `"disabled"`, 1), ""},
		"thinking at first":            {messagesPath, messagesBody("anthropic/m", ""), ""},
		"reasoning at a strict server": {completions, chat("strict/m", `"reasoning":"so","reasoning_content":"so",`), "reasoning_content, reasoning"},
		"none at a strict server":      {completions, chat("strict/m", `"reasoning_content":null,`), ""},
		"reasoning at another server":  {completions, chat("plain/m", `"reasoning_content":"so",`), ""},
	} {
		got := b.say(t, "POST", c.path, c.body)
		if ignored := got.header.Get("X-Switchyard-Ignored"); got.status != http.StatusOK || ignored != c.ignored {
			t.Errorf("%s: %d %s, ignored %q, want %q", name, got.status, got.body, ignored, c.ignored)
		}
	}
}
