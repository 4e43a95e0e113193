package api_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

const (
	responsesPath = "/v1/responses"
	hello         = `"input":"hi"`
)

// responsesPolicy has two hosts of the model "wise", of which the worse one by rank takes requests of the Responses API
// as they come.
const responsesPolicy = `
default_model: sandbox/sandbox
providers:
  - {name: sandbox, dialect: sandbox, models: [sandbox, sandbox-reasoning]}
  - {name: chats, dialect: openai, base_url: %[1]s, key_file: first.key, models: [wise, ok, tools, cut, late-error]}
  - {name: native, dialect: openai, base_url: %[1]s, key_file: first.key, responses: true, models: [wise]}
  - {name: first, dialect: openai, base_url: %[1]s, key_file: first.key, responses: true, models: [ok]}
  - {name: second, dialect: anthropic, base_url: %[1]s, key_file: first.key, models: [spare]}
goals: {quality: [[chats/wise], [native/wise]]}
ladder: [second/spare]
tools_needing_approval: [deploy]
`

// The same form over every dialect, whole and streamed, and one row each.
func TestResponses(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	for _, tt := range []struct {
		name, body string
		want       []string
	}{
		{"over the sandbox", `{` + hello + `}`, []string{`"object":"response"`, `"text":"sandbox: hi"`, `"status":"completed"`, `"model":"sandbox"`, `"input_tokens":1`}},
		{"over openai", `{"model":"chats/ok",` + hello + `}`, []string{`"text":"hello <there> &"`, `"cached_tokens":4`, `"model":"chats/ok"`}},
		{"over anthropic", `{"model":"spare",` + hello + `}`, []string{`"text":"from spare"`}},
		{"reasoning", `{"model":"sandbox-reasoning",` + hello + `}`, []string{`"type":"reasoning"`, `"summary":[{"type":"summary_text","text":"The question has 2 bytes.`}},
		{"over the sandbox, streamed", `{"stream":true,` + hello + `}`, []string{"event: response.created\n", `"delta":"sandbox: "`, `"text":"sandbox: hi"`, "event: response.completed\n"}},
		{"over openai, streamed", `{"model":"chats/ok","stream":true,` + hello + `}`, []string{`"delta":"hello"`, `"text":"hello <there> &"`, `"output_tokens":2`}},
		{"over anthropic, streamed", `{"model":"spare","stream":true,` + hello + `}`, []string{`"delta":"from spare"`}},
		{"reasoning, streamed", `{"model":"sandbox-reasoning","stream":true,` + hello + `}`, []string{`"type":"response.reasoning_summary_text.delta"`, `"text":"The question has 2 bytes. I repeat it."`}},
		{"calls, streamed", `{"model":"chats/tools","stream":true,` + hello + `}`, []string{`"type":"function_call","status":"completed","call_id":"c1","name":"f","arguments":"{\"a\":1}"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			before := b.rows(t, "true")
			got := b.say(t, "POST", responsesPath, tt.body)
			for _, want := range tt.want {
				if got.status != 200 || !strings.Contains(got.body, want) {
					t.Errorf("%d, want %s: %s", got.status, want, got.body)
				}
			}
			if n := b.rows(t, "true") - before; n != 1 {
				t.Errorf("%d rows, want 1", n)
			}
			if provider := got.header.Get("X-Switchyard-Provider"); provider == "" {
				t.Error("no provider is named")
			}
		})
	}
}

// responds makes the vendor answer requests of the Responses API.
func (b *bench) responds(events ...string) {
	b.vendor.mu.Lock()
	defer b.vendor.mu.Unlock()
	b.vendor.fails = func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/responses") {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, `{"choices":[{"message":{"content":"from a chat"},"finish_reason":"stop"}],"usage":{"prompt_tokens":1,"completion_tokens":1}}`)
			return
		}
		if len(events) == 1 {
			w.Header().Set("Content-Type", "application/json")
			_, _ = io.WriteString(w, events[0])
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		for _, event := range events {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", event)
		}
	}
}

// A vendor with the API gets the body as it came, without state, and its answer is relayed.
func TestResponsesRelayed(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.responds(`{"id":"resp_v","object":"response","status":"completed","store":false,"model":"wise-1","output":[{"type":"web_search_call","id":"ws_1"},{"type":"message","content":[{"type":"output_text","text":"found"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
	body := `{"model":"native/wise","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"},"x_new":{"n":1.50},` + hello + `}`
	got := b.say(t, "POST", responsesPath, body)
	for _, want := range []string{`"model":"native/wise"`, `"store":true`, `"type":"web_search_call"`, `"id":"resp_sw`} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d, want %s: %s", got.status, want, got.body)
		}
	}
	if ignored := got.header.Get("X-Switchyard-Ignored"); ignored != "" {
		t.Errorf("ignored %q, want nothing", ignored)
	}
	if sent := b.vendor.last(); sent != `{"model":"wise","store":false,"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"},"x_new":{"n":1.50},"input":"hi"}` {
		t.Errorf("the vendor got %s", sent)
	}
	b.responds(`{"type":"response.created","response":{"id":"resp_v","model":"wise-1","output":[]}}`,
		`{"type":"response.output_text.delta","delta":"found"}`,
		`{"type":"response.completed","response":{"id":"resp_v","model":"wise-1","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}}`)
	got = b.say(t, "POST", responsesPath, `{"model":"native/wise","stream":true,`+hello+`}`)
	for _, want := range []string{"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"found\"}\n\n", `"model":"native/wise"`, "event: response.completed\n"} {
		if !strings.Contains(got.body, want) {
			t.Errorf("want %s: %s", want, got.body)
		}
	}
	if strings.Contains(got.body, "resp_v") {
		t.Errorf("the vendor's id is in %s", got.body)
	}
	if n := b.rows(t, "usage_state = 'partial' AND input_tokens = 5"); n != 1 { // Of a search the vendor bills more.
		t.Errorf("%d rows are marked partial, want the one with a search", n)
	}
}

// Tools of the vendor's own are an offer: a host that has them comes first, others serve without, unless they are
// demanded or the policy refuses.
func TestHostedTools(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.responds(`{"id":"resp_v","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"from the API"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
	for _, tt := range []struct {
		name, body              string
		status                  int
		provider, ignored, text string
	}{
		{"not offered", `{"model":"wise",` + hello + `}`, 200, "chats", "", "from a chat"},
		{"offered", `{"model":"wise","tools":[{"type":"web_search"}],` + hello + `}`, 200, "native", "", "from the API"},
		{"no host has them", `{"model":"spare","tools":[{"type":"web_search"},{"type":"mcp"}],` + hello + `}`, 200, "second", "tools.web_search, tools.mcp", ""},
		{"demanded", `{"model":"wise","tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"},` + hello + `}`, 200, "native", "", "from the API"},
		{"demanded in vain", `{"model":"spare","switchyard":{"allow_substitution":false},"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"},` + hello + `}`, 400, "", "", "tool_choice.type: web_search: only providers of the responses dialect can carry it"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.provider == "second" {
				b.vendor.answers(`{"type":"message","content":[{"type":"text","text":"from spare"}],"stop_reason":"end_turn","usage":{"input_tokens":4,"output_tokens":2}}`)
			}
			got := b.say(t, "POST", responsesPath, tt.body)
			if got.status != tt.status || !strings.Contains(got.body, tt.text) {
				t.Fatalf("%d %s, want %d with %s", got.status, got.body, tt.status, tt.text)
			}
			if provider := got.header.Get("X-Switchyard-Provider"); provider != tt.provider {
				t.Errorf("served by %q, want %q", provider, tt.provider)
			}
			if ignored := got.header.Get("X-Switchyard-Ignored"); ignored != tt.ignored {
				t.Errorf("ignored %q, want %q", ignored, tt.ignored)
			}
			if tt.status == 400 && !strings.Contains(got.body, `"code":"capability_unsupported"`) {
				t.Errorf("%s, want capability_unsupported", got.body)
			}
			b.responds(`{"id":"resp_v","status":"completed","output":[{"type":"message","content":[{"type":"output_text","text":"from the API"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
		})
	}
	strict := setupWith(t, "hosted_tools: refuse\n"+responsesPolicy)
	got := strict.say(t, "POST", responsesPath, `{"model":"spare","tools":[{"type":"mcp"}],`+hello+`}`)
	if got.status != 400 || !strings.Contains(got.body, `"param":"tools[0].type"`) || !strings.Contains(got.body, "tools[0].type: mcp: only") {
		t.Errorf("%d %s, want 400 with the tool", got.status, got.body)
	}
}

// Under a ceiling what a vendor's tool costs can't be reserved, so that it is not offered; to demand it is refused.
func TestHostedToolsUnderACeiling(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.responds(`{"id":"resp_v","status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}`)
	b.post(t, "/v1/runs/mint", `{"run_id":"r1","max_cost_cents":100000,"ttl_seconds":600}`).fields(t, 201)
	body := `{"model":"first/ok","max_output_tokens":10,"tools":[{"type":"web_search"}],` + hello
	got := b.say(t, "POST", responsesPath, body+`}`, "X-Run-Id", "r1")
	if got.status != 200 || !strings.Contains(got.body, "from a chat") || got.header.Get("X-Switchyard-Ignored") != "tools.web_search" {
		t.Errorf("%d %v %s, want the chat's answer and the tool ignored", got.status, got.header, got.body)
	}
	got = b.say(t, "POST", responsesPath, body+`,"tool_choice":{"type":"web_search"}}`, "X-Run-Id", "r1")
	if got.status != 403 || !strings.Contains(got.body, "its surcharge has no price") {
		t.Errorf("%d %s, want 403", got.status, got.body)
	}
}

// A failure before the first content moves on to another dialect; after it, both events of a failure are sent.
func TestResponsesFailover(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	got := b.say(t, "POST", responsesPath, `{"model":"chats/late-error","stream":true,`+hello+`}`)
	if got.status != 200 || !strings.Contains(got.body, "from spare") || strings.Contains(got.body, "overloaded") {
		t.Errorf("%d %s, want the answer of the spare one", got.status, got.body)
	}
	got = b.say(t, "POST", responsesPath, `{"model":"chats/cut","stream":true,`+hello+`}`)
	for _, want := range []string{"event: error\ndata: {\"type\":\"error\",", "event: response.failed\n", `"status":"failed"`} {
		if !strings.Contains(got.body, want) {
			t.Errorf("want %s: %s", want, got.body)
		}
	}
	if strings.Contains(got.body, canary) {
		t.Errorf("the key is in %s", got.body)
	}
}

// Calls of tools that need an approval are withheld in this form too: translated, and in each form that a vendor has.
func TestResponsesNeedApproval(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	ref := b.asks(t, "")
	const completed = `{"type":"response.completed","response":{"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}}`
	created := `{"type":"response.created","response":{"id":"resp_v","output":[]}}`
	added := func(item string) string {
		return `{"type":"response.output_item.added","output_index":0,"item":` + item + `}`
	}
	for name, events := range map[string][]string{
		"a function":     {created, added(`{"type":"function_call","call_id":"c","name":"deploy","arguments":""}`)},
		"a custom tool":  {created, added(`{"type":"custom_tool_call","call_id":"c","name":"deploy","input":""}`), completed},
		"a future kind":  {created, added(`{"type":"new_call","tool":{"name":"deploy"}}`), completed},
		"the end alone":  {created, `{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"deploy","arguments":"{}"}]}}`},
		"a whole answer": {`{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"deploy","arguments":"{}"}]}`},
	} {
		t.Run(name, func(t *testing.T) {
			b.responds(events...)
			body := fmt.Sprintf(`{"model":"native/wise","stream":%t,"tools":[{"type":"function","name":"deploy"}],"input":"deploy it"}`, len(events) > 1)
			got := b.say(t, "POST", responsesPath, body, "X-Switchyard-Approval-Ref", ref)
			if !strings.Contains(got.body, "approval_required") || strings.Contains(got.body, `"name":"deploy","arguments"`) || strings.Contains(got.body, `"call_id":"c"`) {
				t.Errorf("%d %s, want the call withheld", got.status, got.body)
			}
		})
	}
	b.post(t, approvalsPath+"/"+ref+"/approve", `{"decided_by":"ada"}`).fields(t, 200)
	b.responds(created, added(`{"type":"function_call","call_id":"c","name":"deploy","arguments":""}`),
		`{"type":"response.function_call_arguments.delta","output_index":0,"delta":"{}"}`,
		`{"type":"response.output_item.done","output_index":0,"item":{"type":"function_call","call_id":"c","name":"deploy","arguments":"{}"}}`,
		`{"type":"response.completed","response":{"status":"completed","output":[{"type":"function_call","call_id":"c","name":"deploy","arguments":"{}"}],"usage":{"input_tokens":5,"output_tokens":2}}}`)
	got := b.say(t, "POST", responsesPath, `{"model":"native/wise","stream":true,"tools":[{"type":"function","name":"deploy"}],"input":"deploy it"}`, "X-Switchyard-Approval-Ref", ref)
	if got.status != 200 || !strings.Contains(got.body, "event: response.completed\n") {
		t.Errorf("%d %s, want the approved call", got.status, got.body)
	}
}
