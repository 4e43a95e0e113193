package responses

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

const hi = `"input":"hi"`

func TestChat(t *testing.T) {
	sealed := seal("c1", json.RawMessage(`{"anthropic":{"lead":[]}}`))
	body := `{"model":"m","stream":true,"instructions":"be kind","max_output_tokens":7,"temperature":0.5,"top_p":0.9,"parallel_tool_calls":false,
	"store":false,"metadata":{"a":"b"},"include":["reasoning.encrypted_content"],"client_metadata":{"x":"y"},"prompt_cache_key":"k","truncation":"auto","previous_response_id":null,"background":false,
	"text":{"verbosity":"low","format":{"type":"json_schema","name":"n","description":"d","schema":{"type":"object"},"strict":true}},
	"tools":[{"type":"function","name":"f","description":"d","parameters":{"type":"object"},"strict":true},{"type":"function","name":"g","parameters":null},
		{"type":"custom","name":"patch","description":"Edits.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
		{"type":"namespace","name":"crm","description":"n","tools":[{"type":"function","name":"find","parameters":{}}]},
		{"type":"tool_search","execution":"client","description":"finds","parameters":{}},{"type":"web_search"}],
	"tool_choice":{"type":"function","name":"f"},
	"input":[
		{"type":"message","role":"developer","content":[{"type":"input_text","text":"rules"}]},
		{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,AAAA","detail":"original"},{"type":"input_text","text":"look"}]},
		{"type":"message","id":"msg_1","role":"assistant","status":"completed","content":[{"type":"output_text","text":"I call","annotations":[]},{"type":"refusal","refusal":"no"}]},
		{"type":"reasoning","id":"rs_1","summary":[],"encrypted_content":"` + sealed + `"},
		{"type":"function_call","id":"fc_1","call_id":"c1","name":"f","arguments":"{\"a\": 1}","status":"completed"},
		{"type":"custom_tool_call","call_id":"c2","name":"patch","input":"a \"b\""},
		{"type":"function_call","call_id":"c3","name":"find","namespace":"crm","arguments":""},
		{"type":"tool_search_call","call_id":"c4","execution":"client","arguments":{"q":1}},
		{"type":"function_call_output","call_id":"c1","output":"sunny"},
		{"type":"custom_tool_call_output","call_id":"c2","output":[{"type":"input_text","text":"done"},{"type":"input_image","image_url":"https://images.example/a.png"}]},
		{"type":"function_call_output","call_id":"c3","output":[{"type":"input_image","image_url":"https://images.example/b.png"},{"type":"input_file","filename":"a.csv","file_data":"data:text/csv;base64,YQ=="}]},
		{"type":"tool_search_output","call_id":"c4","execution":"client","status":"completed","tools":[{"type":"function","name":"late","parameters":{}}]},
		{"type":"reasoning","id":"rs_2","summary":[{"type":"summary_text","text":"x"}],"encrypted_content":"gAAAA"},
		{"role":"user","content":"go on"}],
	"unheard_of":1,"switchyard":{"provider":"first"}}`
	got, exchange, err := Read([]byte(body), http.Header{"Openai-Beta": {"x=1"}, "Authorization": {"secret"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Chat{
		Messages: []provider.Message{
			{Role: provider.RoleSystem, Content: []provider.Part{{Text: "be kind"}}},
			{Role: provider.RoleSystem, Content: []provider.Part{{Text: "rules"}}},
			{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "data:image/png;base64,AAAA", Detail: "high", Field: "input[1].content[0].image_url"}, {Text: "look"}}},
			{Role: provider.RoleAssistant, Content: []provider.Part{{Text: "I call"}, {Text: "no"}}, ToolCalls: []provider.ToolCall{
				{Index: 0, ID: "c1", Name: "f", Arguments: `{"a": 1}`, Extra: json.RawMessage(`{"anthropic":{"lead":[]}}`)},
				{Index: 1, ID: "c2", Name: "patch", Arguments: `{"input":"a \"b\""}`},
				{Index: 2, ID: "c3", Name: "crm__find"},
				{Index: 3, ID: "c4", Name: "tool_search", Arguments: `{"q":1}`},
			}},
			{Role: provider.RoleTool, ToolCallID: "c1", Content: []provider.Part{{Text: "sunny"}}},
			{Role: provider.RoleTool, ToolCallID: "c2", Content: []provider.Part{{Text: "done"}}},
			{Role: provider.RoleTool, ToolCallID: "c3", Content: []provider.Part{{Text: "The result follows below."}}},
			{Role: provider.RoleTool, ToolCallID: "c4", Content: []provider.Part{{Text: `[{"type":"function","name":"late","parameters":{}}]`}}},
			{Role: provider.RoleUser, Content: []provider.Part{
				{ImageURL: "https://images.example/a.png", Field: "input[9].output[1].image_url"},
				{ImageURL: "https://images.example/b.png", Field: "input[10].output[0].image_url"},
				{File: &provider.File{Name: "a.csv", URL: "data:text/csv;base64,YQ=="}, Field: "input[10].output[1].file_data"},
			}},
			{Role: provider.RoleUser, Content: []provider.Part{{Text: "go on"}}},
		},
		Tools: []provider.Tool{
			{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true},
			{Name: "g"},
			{Name: "patch", Description: "Edits.\n\nThe input must match this lark grammar:\nstart: x", Parameters: json.RawMessage(customParameters)},
			{Name: "crm__find", Parameters: json.RawMessage(`{}`)},
			{Name: "tool_search", Description: "finds", Parameters: json.RawMessage(`{}`)},
			{Name: "late", Parameters: json.RawMessage(`{}`)},
		},
		ToolChoice:     &provider.ToolChoice{Mode: "tool", Name: "f"},
		ResponseFormat: json.RawMessage(`{"json_schema":{"description":"d","name":"n","schema":{"type":"object"},"strict":true},"type":"json_schema"}`),
		MaxTokens:      7, Temperature: new(0.5), TopP: new(0.9), ParallelTools: new(false), Verbosity: "low", CacheKey: "k",
	}
	native := got.Chat.Native
	got.Chat.Native = nil
	if diff := cmp.Diff(want, got.Chat); diff != "" {
		t.Errorf("chat (-want +got):\n%s", diff)
	}
	if got.Model != "m" || !got.Stream || got.Only != "" || !got.Reasoning {
		t.Errorf("model %q, stream %t, only %q, reasoning %t, want m, true, none, true", got.Model, got.Stream, got.Only, got.Reasoning)
	}
	ignored := []string{
		"text.verbosity", "tools.web_search", "reasoning.encrypted_content", "parallel_tool_calls", "metadata", "client_metadata",
		"prompt_cache_key", "truncation", "unheard_of",
	}
	if diff := cmp.Diff(ignored, provider.Ignored(got.Hints, provider.HintSettings, "")); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
	if got.Bounds.Offered != "tools[5].type: web_search" || got.Bounds.OpenInput || got.Bounds.Surcharged {
		t.Errorf("bounds %+v, want the web search as an offer", got.Bounds)
	}
	if want := strings.Replace(body, `,"switchyard":{"provider":"first"}`, "", 1); native.Dialect != "responses" || string(native.Body) != want {
		t.Errorf("native %s: %s", native.Dialect, native.Body)
	}
	if diff := cmp.Diff(map[string]string{"OpenAI-Beta": "x=1"}, native.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
	if exchange.echo.Store || exchange.echo.ParallelToolCalls || string(exchange.echo.Truncation) != `"auto"` {
		t.Errorf("echo %+v, want the request's", exchange.echo)
	}
}

// Fields that no other dialect can carry restrict the request to this one.
func TestOnlyThisDialect(t *testing.T) {
	item := func(item string) string { return `{"input":[{"role":"user","content":"hi"},` + item + `]}` }
	for body, want := range map[string]string{
		`{` + hi + `,"tools":[{"type":"web_search"}]}`:                                     "",
		`{` + hi + `,"tools":[{"type":"web_search"}],"tool_choice":{"type":"web_search"}}`: "tool_choice.type: web_search",
		`{` + hi + `,"tools":[{"type":"local_shell"}]}`:                                    "tools[0].type",
		`{` + hi + `,"prompt":{"id":"p"}}`:                                                 "prompt",
		`{` + hi + `,"service_tier":"priority"}`:                                           "service_tier",
		`{` + hi + `,"service_tier":"auto"}`:                                               "",
		`{` + hi + `,"top_logprobs":3}`:                                                    "top_logprobs",
		`{` + hi + `,"include":["message.output_text.logprobs"]}`:                          "include[0]",
		`{` + hi + `,"text":{"format":{"type":"grammar"}}}`:                                "text.format.type",
		item(`{"type":"compaction","encrypted_content":"x"}`):                              "input[1].type",
		item(`{"type":"computer_call","call_id":"c"}`):                                     "input[1].type",
		item(`{"type":"web_search_call","id":"ws_1"}`):                                     "",
		item(`{"role":"user","content":[{"type":"input_image","file_id":"f"}]}`):           "input[1].content[0].file_id",
		item(`{"role":"user","content":[{"type":"input_file","file_id":"f"}]}`):            "input[1].content[0].file_id",
		item(`{"role":"user","content":[{"type":"input_audio"}]}`):                         "input[1].content[0].type",
		item(`{"type":"tool_search_call","execution":"server","call_id":null}`):            "input[1].execution",
	} {
		got, _, err := Read([]byte(body), nil, nil)
		if err != nil || got.Only != want || (want != "") != (got.Needs().Dialect == "responses") {
			t.Errorf("%s: only %+v, %v, want %q", body, got, err, want)
		}
	}
}

func TestChatRefuses(t *testing.T) {
	item := func(item string) string { return `{"input":[{"role":"user","content":"hi"},` + item + `]}` }
	for body, want := range map[string]string{
		`[]`:                                         "body: must be a JSON object",
		`{}`:                                         "input: is required",
		`{"input":7}`:                                "input: must be a string or an array of items",
		`{"input":[]}`:                               "input: must hold a message",
		`{` + hi + `,"input":"again"}`:               `body: holds the name "input" twice`,
		`{` + hi + `,"Input":"x"}`:                   `Input: unknown field; write "input"`,
		`{` + hi + `,"instructions":1}`:              "instructions: has the wrong JSON type: number",
		`{` + hi + `,"max_output_tokens":1e2}`:       "max_output_tokens: must be a whole number from 1 to 10000000, written in digits only",
		`{` + hi + `,"conversation":"c"}`:            "conversation: is not supported; use previous_response_id",
		`{` + hi + `,"truncation":"most"}`:           "truncation: must be auto or disabled",
		`{` + hi + `,"truncation":7}`:                "truncation: has the wrong JSON type: number",
		`{` + hi + `,"max_tool_calls":-1}`:           "max_tool_calls: must be at least 1",
		`{` + hi + `,"include":["x"]}`:               "include[0]: must be one of file_search_call.results, ",
		`{` + hi + `,"tools":[{"type":"function"}]}`: "tools[0].name: is required",
		`{` + hi + `,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"f"}]}`:    "tools[1].name: appears twice",
		`{` + hi + `,"tools":[{"type":"namespace","tools":[]}]}`:                                "tools[0].name: is required",
		`{` + hi + `,"tools":[{"type":"namespace","name":"a","tools":[{"type":"namespace"}]}]}`: "tools[0].tools[0].type: a namespace can't hold a namespace",
		`{` + hi + `,"tools":[{"type":"function","Name":"f"}]}`:                                 `tools[0].Name: unknown field; write "name"`,
		`{` + hi + `,"tool_choice":"maybe"}`:                                                    "tool_choice: must be auto, none, required or a tool",
		`{` + hi + `,"tool_choice":{"type":"function","name":"x"}}`:                             "tool_choice.name: must be one of tools",
		`{` + hi + `,"tool_choice":{"type":"allowed_tools","mode":"any"}}`:                      "tool_choice.mode: must be auto or required",
		`{` + hi + `,"text":{"format":{"type":"json_schema","schema":[]}}}`:                     "text.format.schema: must be an object",
		item(`7`):                                      "input[1]: has the wrong JSON type: number",
		item(`{"role":"robot","content":"x"}`):         "input[1].role: must be user, assistant, system or developer",
		item(`{"role":"user"}`):                        "input[1].content: is required",
		item(`{"role":"user","content":7}`):            "input[1].content: must be a string or an array of parts",
		`{"background":true,"store":false,` + hi + `}`: "background: needs store: the response is read later",
		item(`{}`):                        "input[1].type: is required",
		item(`{"type":"item_reference"}`): "input[1].id: is required",
		item(`{"type":"function_call","name":"f","arguments":"{}"}`):                                                      "input[1].call_id: is required",
		item(`{"type":"function_call","call_id":"c","arguments":"{}"}`):                                                   "input[1].name: is required",
		item(`{"type":"function_call","call_id":"c","name":"f","arguments":{}}`):                                          "input[1].arguments: has the wrong JSON type: object",
		item(`{"type":"custom_tool_call","call_id":"c","name":"f"},{"type":"custom_tool_call","call_id":"c","name":"f"}`): "input[2].call_id: an item before it has the same",
		item(`{"type":"function_call_output","call_id":"c","output":"x"}`):                                                "input[1].call_id: no call of this id comes before it",
		item(`{"type":"function_call","call_id":"c","name":"f"},{"type":"function_call_output","call_id":"c"}`):           "input[2].output: is required",
		item(`{"role":"user","content":[{"type":"input_image","image_url":"http://x"}]}`):                                 "input[1].content[0].image_url: must be an https URL or a data: URI of an image",
		item(`{"role":"user","content":[{"type":"input_file","file_data":"AAAA"}]}`):                                      "input[1].content[0].file_data: must be a data: URI in base64",
		item(`{"role":"user","content":[{"type":"input_file","file_url":"http://x"}]}`):                                   "input[1].content[0].file_url: must be an https URL",
		item(`{"role":"user","content":[{"type":"input_text","Text":"x"}]}`):                                              `input[1].content[0].Text: unknown field; write "text"`,
	} {
		_, _, err := Read([]byte(body), nil, nil)
		if e := apierr.From(err); err == nil || e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, want) {
			t.Errorf("%s: %v, want %q", body, err, want)
		}
	}
}

// A choice of some tools leaves the others out for vendors without such a choice.
func TestAllowedTools(t *testing.T) {
	got, _, err := Read([]byte(`{`+hi+`,"tools":[{"type":"function","name":"f"},{"type":"custom","name":"g"}],
		"tool_choice":{"type":"allowed_tools","mode":"required","tools":[{"type":"custom","name":"g"}]}}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if tools := got.Chat.Tools; len(tools) != 1 || tools[0].Name != "g" {
		t.Errorf("tools %+v, want g alone", tools)
	}
	if diff := cmp.Diff(&provider.ToolChoice{Mode: "required"}, got.Chat.ToolChoice); diff != "" {
		t.Errorf("choice (-want +got):\n%s", diff)
	}
}

// A function within a namespace is named after both. A vendor with a shorter limit gets a shortened name.
func TestFunctionName(t *testing.T) {
	if got := functionName("ns", "f"); got != "ns__f" {
		t.Errorf("%q, want ns__f", got)
	}
}

func TestState(t *testing.T) {
	const extra = `{"google":{"thought_signature":"x"}}`
	state, ok := open(seal("call_1", json.RawMessage(extra)))
	if !ok || string(state["call_1"]) != extra {
		t.Errorf("%s, %t, want what was sealed", state, ok)
	}
	for _, foreign := range []string{"", "gAAAAAB", sealMark + "!", sealMark + "bm8"} {
		if state, ok := open(foreign); ok {
			t.Errorf("%q: %s", foreign, state)
		}
	}
}

func TestLocalize(t *testing.T) {
	for body, want := range map[string]string{
		`{"input":"x"}`:                     `{"input":"x","instructions":"i"}`,
		`{"instructions":null,"input":"x"}`: `{"instructions":"i","input":"x"}`,
		`{"instructions":"a\"b"}`:           `{"instructions":"i\n\na\"b"}`,
	} {
		if got, err := localize([]byte(body), "i"); err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", body, got, err, want)
		}
	}
}

func FuzzChat(f *testing.F) {
	dialecttest.FuzzChat(f, Dialect{}, `{"model":"m","input":"hi","instructions":"x"}`,
		`{"input":[{"role":"user","content":[{"type":"input_text","text":"a"}]},{"type":"function_call","call_id":"c","name":"f","arguments":"{}"},{"type":"function_call_output","call_id":"c","output":"x"}]}`,
		`{"input":[{"id":"0"}]}`, `{"input":[{"type":"reasoning","summary":[],"encrypted_content":"swy1.e30"}],"tools":[{"type":"namespace","name":"n","tools":[{"type":"custom","name":"c"}]}],"tool_choice":"auto"}`)
}

var _ dialect.Dialect = Dialect{}

func TestFiles(t *testing.T) {
	got, _, err := Read([]byte(`{"input":[{"role":"user","content":[{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"},
		{"type":"input_file","file_url":"https://x/a.pdf"}]}]}`), nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.Part{
		{File: &provider.File{Name: "a.pdf", URL: "data:application/pdf;base64,AAAA"}, Field: "input[0].content[0].file_data"},
		{File: &provider.File{URL: "https://x/a.pdf"}, Field: "input[0].content[1].file_url"},
	}
	if diff := cmp.Diff(want, got.Chat.Messages[0].Content); diff != "" || got.Only != "" || !got.Bounds.OpenInput {
		t.Errorf("only %q, bounds %+v, parts (-want +got):\n%s", got.Only, got.Bounds, diff)
	}
}

// A response is stored unless the caller says otherwise.
func TestStored(t *testing.T) {
	for body, want := range map[string]bool{`{` + hi + `}`: true, `{"store":true,` + hi + `}`: true, `{"store":false,` + hi + `}`: false} {
		chat, x, err := Read([]byte(body), http.Header{}, nil)
		if err != nil {
			t.Fatal(err)
		}
		if chat.Stored != want || x.Stores() != want {
			t.Errorf("%s: stored %t and %t, want %t", body, chat.Stored, x.Stores(), want)
		}
	}
}
