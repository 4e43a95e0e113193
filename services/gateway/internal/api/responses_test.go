package api_test

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/platform/testkit"
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

// stores creates a response and returns its id.
func (b *bench) stores(t *testing.T, body string, header ...string) (id string) {
	t.Helper()
	got := b.say(t, "POST", responsesPath, body, header...)
	if got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	if strings.Contains(body, `"stream":true`) {
		_, got.body, _ = strings.Cut(got.body, "event: response.completed\ndata: ")
		return gjson.Get(got.body, "response.id").Str
	}
	return gjson.Get(got.body, "id").Str
}

// A conversation goes on from any stored response, whole or streamed, at any vendor; it is read, listed and deleted by
// its owner alone.
func TestStoredResponses(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	first := b.stores(t, `{"model":"sandbox","input":"one"}`)
	second := b.stores(t, `{"model":"sandbox","stream":true,"previous_response_id":"`+first+`","input":[{"role":"user","content":"two"}]}`)
	b.responds(`{"id":"resp_v","status":"completed","output":[{"id":"msg_v","type":"message","role":"assistant","content":[{"type":"output_text","text":"from the API"}]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
	third := b.stores(t, `{"model":"native/wise","previous_response_id":"`+second+`","input":"three"}`)
	sent := b.vendor.last()
	for _, want := range []string{`"content":"one"`, `"text":"sandbox: one"`, `"content":"two"`, `"text":"sandbox: two"`, `"content":"three"`} {
		at := strings.Index(sent, want)
		if at < 0 || strings.Contains(sent, "previous_response_id") || strings.Contains(sent, `_sw`) {
			t.Errorf("the vendor got %s, want %s", sent, want)
		}
		sent = sent[max(at, 0):]
	}
	got := b.say(t, "GET", responsesPath+"/"+third, "")
	for _, want := range []string{`"id":"` + third + `"`, `"previous_response_id":"` + second + `"`, `"text":"from the API"`, `"store":true`} {
		if got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%d, want %s: %s", got.status, want, got.body)
		}
	}
	got = b.say(t, "GET", responsesPath+"/"+third+"/input_items?order=asc&limit=3", "")
	if page := gjson.Parse(got.body); len(page.Get("data").Array()) != 3 || !page.Get("has_more").Bool() || page.Get("data.0.content.0.text").Str != "one" || page.Get("first_id").Str == "" {
		t.Errorf("%d %s", got.status, got.body)
	}
	answered := b.say(t, "POST", responsesPath, `{"model":"sandbox","input":[{"role":"user","content":"x"},{"type":"item_reference","id":"`+gjson.Get(got.body, "data.1.id").Str+`"},{"role":"user","content":"y"}]}`)
	if answered.status != 200 {
		t.Errorf("a reference: %d %s", answered.status, answered.body)
	}
	for _, tt := range []struct {
		name, method, path, body string
		header                   []string
		status                   int
		want                     string
	}{
		{"another organization", "GET", "/" + third, "", []string{"X-Organization-Id", "bolt"}, 404, `"code":"response_not_found"`},
		{"another owner", "GET", "/" + third, "", []string{"X-Owner-Id", "bob"}, 404, `"code":"response_not_found"`},
		{"another owner", "DELETE", "/" + third, "", []string{"X-Owner-Id", "bob"}, 404, `"code":"response_not_found"`},
		{"another owner", "POST", "", `{"previous_response_id":"` + third + `","input":"x"}`, []string{"X-Owner-Id", "bob"}, 400, `"param":"previous_response_id","code":"previous_response_not_found"`},
		{"no such response", "GET", "/resp_0", "", nil, 404, `"code":"response_not_found"`},
		{"no such response", "POST", "/resp_0/cancel", "", nil, 404, `"code":"response_not_found"`},
		{"nothing to cancel", "POST", "/" + third + "/cancel", "", nil, 400, "only a response that is made in the background"},
		{"nothing to stream", "GET", "/" + third + "?stream=true", "", nil, 400, `"param":"stream"`},
		{"no such page", "GET", "/" + third + "/input_items?limit=0", "", nil, 400, `"param":"limit"`},
		{"deleted", "DELETE", "/" + second, "", nil, 200, `{"id":"` + second + `","object":"response","deleted":true}`},
		{"gone", "GET", "/" + second, "", nil, 404, `"code":"response_not_found"`},
		{"its chain", "POST", "", `{"previous_response_id":"` + third + `","input":"x"}`, nil, 400, `"code":"previous_response_not_found"`},
		{"by itself", "GET", "/" + third, "", nil, 200, `"id":"` + third + `"`},
	} {
		got := b.say(t, tt.method, responsesPath+tt.path, tt.body, tt.header...)
		if got.status != tt.status || !strings.Contains(got.body, tt.want) {
			t.Errorf("%s %s %s: %d %s, want %d %s", tt.name, tt.method, tt.path, got.status, got.body, tt.status, tt.want)
		}
	}
	if n := testkit.Value[int](t, b.pool, "SELECT count(*) FROM response WHERE sealed::text LIKE '%sandbox%'"); n != 0 {
		t.Errorf("%d rows hold words", n)
	}
}

// A request that continued a conversation is issued again with all of it, whatever has become of the conversation.
func TestResponsesAreReplayed(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	first := b.stores(t, `{"model":"sandbox","input":"one"}`)
	b.stores(t, `{"model":"sandbox","previous_response_id":"`+first+`","input":"two"}`, "X-Request-Id", "r-second")
	b.recorded(t, "r-second", 1)
	if got := b.say(t, "DELETE", responsesPath+"/"+first, ""); got.status != 200 {
		t.Fatalf("%d %s", got.status, got.body)
	}
	got := b.say(t, "POST", "/v1/replay/r-second", "{}", "Authorization", "Bearer ops")
	if got.status != 200 || !strings.Contains(got.body, "sandbox: two") {
		t.Errorf("%d %s, want the answer again", got.status, got.body)
	}
}

// What is not to be stored isn't, and says so; so does what can't be.
func TestResponsesThatAreNotStored(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	got := b.say(t, "POST", responsesPath, `{"store":false,`+hello+`}`)
	id := gjson.Get(got.body, "id").Str
	if gjson.Get(got.body, "store").Bool() || b.say(t, "GET", responsesPath+"/"+id, "").status != 404 {
		t.Errorf("it is stored: %s", got.body)
	}
	testkit.Exec(t, b.pool, "ALTER TABLE response RENAME TO response_away")
	for _, stream := range []string{"false", "true"} {
		got = b.say(t, "POST", responsesPath, `{"stream":`+stream+`,`+hello+`}`)
		if got.status != 200 || !strings.Contains(got.body, "sandbox: hi") || strings.Contains(got.body[strings.LastIndex(got.body, "sandbox: hi"):], `"store":true`) {
			t.Errorf("%d %s, want the answer, which says that it is not stored", got.status, got.body)
		}
	}
	got = b.say(t, "POST", responsesPath, `{"previous_response_id":"`+id+`",`+hello+`}`)
	if got.status != 503 || got.header.Get("Retry-After") == "" {
		t.Errorf("%d %s, want 503", got.status, got.body)
	}
}

// Reasoning that one host encrypted goes back to it alone: another host answers without, and the answer says so.
func TestReasoningOfAnotherHost(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	b.responds(`{"status":"completed","output":[{"type":"reasoning","id":"rs_v","summary":[],"encrypted_content":"gAAA"},{"id":"msg_v","type":"message","role":"assistant","content":[]}],"usage":{"input_tokens":5,"output_tokens":2}}`)
	first := b.say(t, "POST", responsesPath, `{"model":"native/wise",`+hello+`}`)
	sealed := gjson.Get(first.body, "output.0.encrypted_content").Str
	id := gjson.Get(first.body, "id").Str
	if first.status != 200 || sealed == "" || sealed == "gAAA" {
		t.Fatalf("%d %s", first.status, first.body)
	}
	for model, same := range map[string]bool{"native/wise": true, "first/ok": false, "sandbox": false} {
		for _, body := range []string{
			`"previous_response_id":"` + id + `","input":"more"`,
			`"store":false,"input":[{"role":"user","content":"hi"},{"type":"reasoning","summary":[],"encrypted_content":"` + sealed + `"},{"role":"user","content":"more"}]`,
		} {
			got := b.say(t, "POST", responsesPath, `{"model":"`+model+`",`+body+`}`)
			if ignored := got.header.Get("X-Switchyard-Ignored"); got.status != 200 || (ignored == "") != same {
				t.Errorf("%s: %d, ignored %q: %s", model, got.status, ignored, got.body)
			}
			if sent := b.vendor.last(); model != "sandbox" && strings.Contains(sent, `"encrypted_content":"gAAA"`) != same || strings.Contains(sent, "swy1.") {
				t.Errorf("%s was sent %s", model, sent)
			}
		}
	}
}

// The state of calls that a vendor of another dialect made goes to those that can carry it: any other provider answers
// without, and the answer says so, also where the body goes out as it came.
func TestReasoningOfAnotherDialect(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	claude := `{"c":{"anthropic":{"lead":[{"type":"thinking","thinking":"the way there","signature":"s"}]}}}`
	gemini := `{"c":{"google":{"thought_signature":"the way there"}}}`
	for _, c := range []struct {
		state, model string
		carried      bool
	}{
		{claude, "second/spare", true},
		{gemini, "second/spare", false},
		{claude, "native/wise", false},
		{claude, "chats/ok", false},
		{claude, "sandbox", false},
		{gemini, "chats/ok", true},
		{gemini, "native/wise", false},
	} {
		item := `{"type":"reasoning","summary":[],"encrypted_content":"swy1.` + base64.RawURLEncoding.EncodeToString([]byte(c.state)) + `"}`
		if c.model == "native/wise" {
			b.responds(`{"status":"completed","output":[],"usage":{"input_tokens":5,"output_tokens":2}}`)
		}
		got := b.say(t, "POST", responsesPath, `{"model":"`+c.model+`","store":false,"tools":[{"type":"function","name":"f"}],"input":[{"role":"user","content":"hi"},`+item+
			`,{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"a"}]}`)
		want := "reasoning.encrypted_content"
		if c.carried {
			want = ""
		}
		if ignored := got.header.Get("X-Switchyard-Ignored"); got.status != 200 || ignored != want {
			t.Errorf("%s at %s: %d, ignored %q, want %q: %s", c.state, c.model, got.status, ignored, want, got.body)
		}
		if sent := b.vendor.last(); c.model != "sandbox" && strings.Contains(sent, "the way there") != c.carried {
			t.Errorf("%s at %s: sent %s", c.state, c.model, sent)
		}
	}
}

// A stored conversation becomes a summary by any model, is billed as its answer, and goes on at another vendor.
func TestResponsesAreCompacted(t *testing.T) {
	b := setupWith(t, responsesPolicy)
	first := gjson.Parse(b.say(t, "POST", responsesPath, `{"model":"sandbox","input":"build it"}`).body).Get("id").Str
	before := b.rows(t, "true")
	got := b.say(t, "POST", responsesPath+"/compact", `{"model":"sandbox","previous_response_id":"`+first+`"}`)
	answer := gjson.Parse(got.body)
	if got.status != 200 || answer.Get("object").Str != "response.compaction" || answer.Get("output.0.content.0.text").Str != "build it" || answer.Get("output.1.type").Str != "compaction" {
		t.Fatalf("%d %s, want the user's message and a compaction", got.status, got.body)
	}
	if n := b.rows(t, "true") - before; n != 1 {
		t.Errorf("%d rows are billed, want one", n)
	}
	later := b.say(t, "POST", responsesPath, `{"model":"native/wise","input":`+answer.Get("output").Raw+`}`)
	if sent := b.vendor.last(); later.status != 200 || !strings.Contains(sent, "Summary of the conversation so far:") || strings.Contains(sent, "compaction") {
		t.Errorf("%d %s; the vendor got %s, want the summary", later.status, later.body, sent)
	}
	stranger := b.say(t, "POST", responsesPath+"/compact", `{"model":"sandbox","previous_response_id":"`+first+`"}`, "X-Organization-Id", "stranger")
	if stranger.status != 400 || !strings.Contains(stranger.body, "previous_response_not_found") {
		t.Errorf("another organization: %d %s, want 400", stranger.status, stranger.body)
	}
}
