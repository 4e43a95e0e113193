package anthropic

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

const hi = `"max_tokens":9,"messages":[{"role":"user","content":"hi"}]`

func TestChat(t *testing.T) {
	body := `{"model":"m","stream":true,"max_tokens":7,"temperature":0.5,"top_p":0.9,"stop_sequences":["END"],
	"system":[{"type":"text","text":"be "},{"type":"text","text":"kind"}],"metadata":{"user_id":"u"},"thinking":{"type": "disabled"},"service_tier":"auto",
	"tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"strict":true},{"type":"custom","name":"g","input_schema":{}}],
	"tool_choice":{"type":"any","disable_parallel_tool_use":true},
	"output_config":{"format":{"type":"json_schema","schema":{"type":"object"}}},
	"messages":[
		{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"AAAA"}},{"type":"text","text":"look"}]},
		{"role":"assistant","content":[{"type":"text","text":"I call"},{"type":"tool_use","id":"t1","name":"f","input":{"a": 1},"extra_content":{"g":1}},{"type":"tool_use","id":"t2","name":"g","input":{}}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t1","content":"sunny"},{"type":"tool_result","tool_use_id":"t2","is_error":true,"content":[{"type":"text","text":"down"}]},{"type":"text","text":"go on"}]},
		{"role":"user","content":[{"type":"tool_result","tool_use_id":"t3"}]},
		{"role":"user","content":[{"type":"image","source":{"type":"url","url":"https://images.example/a.png"}}]}],
	"unheard_of":1,"switchyard":{"provider":"first"}}`
	header := http.Header{"Anthropic-Version": {"2023-06-01"}, "Anthropic-Beta": {"a", "b"}, "X-Api-Key": {"secret"}}
	got, err := Dialect{}.Chat([]byte(body), header)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Chat{
		Messages: []provider.Message{
			{Role: provider.RoleSystem, Content: []provider.Part{{Text: "be "}, {Text: "kind"}}},
			{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "data:image/png;base64,AAAA", Field: "messages[0].content[0].source.data"}, {Text: "look"}}},
			{Role: provider.RoleAssistant, Content: []provider.Part{{Text: "I call"}}, ToolCalls: []provider.ToolCall{
				{Index: 0, ID: "t1", Name: "f", Arguments: `{"a": 1}`, Extra: json.RawMessage(`{"g":1}`)}, {Index: 1, ID: "t2", Name: "g", Arguments: "{}"},
			}},
			{Role: provider.RoleTool, ToolCallID: "t1", Content: []provider.Part{{Text: "sunny"}}},
			{Role: provider.RoleTool, ToolCallID: "t2", Content: []provider.Part{{Text: "The tool failed:"}, {Text: "down"}}},
			{Role: provider.RoleUser, Content: []provider.Part{{Text: "go on"}}},
			{Role: provider.RoleTool, ToolCallID: "t3"},
			{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "https://images.example/a.png", Field: "messages[4].content[0].source.url"}}},
		},
		Tools: []provider.Tool{
			{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}, {Name: "g", Parameters: json.RawMessage(`{}`)},
		},
		ToolChoice:     &provider.ToolChoice{Mode: "required"},
		ResponseFormat: json.RawMessage(`{"json_schema":{"name":"answer","schema":{"type":"object"},"strict":true},"type":"json_schema"}`),
		MaxTokens:      7, Temperature: new(0.5), TopP: new(0.9), Stop: []string{"END"}, ParallelTools: new(false), EndUser: "u",
	}
	native := got.Chat.Native
	got.Chat.Native = nil
	if diff := cmp.Diff(want, got.Chat); diff != "" {
		t.Errorf("chat (-want +got):\n%s", diff)
	}
	if got.Model != "m" || !got.Stream || got.Only != "" {
		t.Errorf("model %q, stream %t, only %q, want m, true and none", got.Model, got.Stream, got.Only)
	}
	if extension := string(got.Extension); extension != `{"provider":"first"}` {
		t.Errorf("extension %s", extension)
	}
	ignored := []string{"tool_choice.disable_parallel_tool_use", "metadata", "unheard_of"}
	if diff := cmp.Diff(ignored, provider.Ignored(got.Hints, provider.HintSettings, "")); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
	if want := strings.Replace(body, `,"switchyard":{"provider":"first"}`, "", 1); native.Dialect != "anthropic" || string(native.Body) != want {
		t.Errorf("native %s: %s", native.Dialect, native.Body)
	}
	if diff := cmp.Diff(map[string]string{"anthropic-version": "2023-06-01", "anthropic-beta": "a,b"}, native.Headers); diff != "" {
		t.Errorf("headers (-want +got):\n%s", diff)
	}
}

// Fields that no other dialect can carry restrict the request to this one.
func TestOnlyThisDialect(t *testing.T) {
	user := func(block string) string {
		return `{"max_tokens":9,"messages":[{"role":"user","content":[` + block + `]}]}`
	}
	for body, want := range map[string]string{
		`{` + hi + `,"mcp_servers":[{"type":"url","url":"https://x"}]}`:             "mcp_servers",
		`{` + hi + `,"container":"c"}`:                                              "container",
		`{` + hi + `,"service_tier":"standard_only","speed":"standard"}`:            "",
		`{` + hi + `,"service_tier":"other"}`:                                       "service_tier",
		`{` + hi + `,"tools":[{"type":"web_search_20250305","name":"web_search"}]}`: "tools[0].type",
		user(`{"type":"document","source":{"type":"file","file_id":"x"}}`):          "messages[0].content[0].source.type",
		user(`{"type":"search_result","source":"s"}`):                               "messages[0].content[0].type",
		user(`{"type":"image","source":{"type":"file","file_id":"f"}}`):             "messages[0].content[0].source.type",
		`{` + hi + `,"thinking":null,"mcp_servers":[]}`:                             "",
	} {
		got, err := Dialect{}.Chat([]byte(body), nil)
		if err != nil || got.Only != want || (want != "") != (got.Needs().Dialect == "anthropic") {
			t.Errorf("%s: only %+v, %v, want %q", body, got, err, want)
		}
	}
}

func TestChatRefuses(t *testing.T) {
	user := func(block string) string {
		return `{"max_tokens":9,"messages":[{"role":"user","content":[` + block + `]}]}`
	}
	for body, want := range map[string]string{
		`[]`:               "body: must be a JSON object",
		`{"max_tokens":1}`: "messages: must hold a message",
		`{"messages":[{"role":"user","content":"hi"}]}`:                "max_tokens: is required",
		`{"max_tokens":0,"messages":[{"role":"user","content":"hi"}]}`: "max_tokens: must be a whole number from 1 to 10000000",
		`{"max_tokens":"9","messages":[]}`:                             "max_tokens: must be a whole number from 1 to 10000000",
		`{"max_tokens":9,"messages":[{"role":"tool","content":"x"}]}`:  "messages[0].role: must be user or assistant",
		`{"max_tokens":9,"messages":[{"role":"user"}]}`:                "messages[0].content: is required",
		`{"max_tokens":9,"messages":[{"role":"user","content":7}]}`:    "messages[0].content: must be a string or an array",
		user(`3`):                      "messages[0].content[0]: must be a JSON object",
		user(`{"type":"tool_result"}`): "messages[0].content[0].tool_use_id: is required",
		user(`{"type":"image","source":{"type":"url","url":"http://x/a"}}`): "messages[0].content[0].source.url: must be an https URL",
		`{` + hi + `,"tools":[{"input_schema":{}}]}`:                        "tools[0].name: is required",
		`{` + hi + `,"tool_choice":{"type":"maybe"}}`:                       "tool_choice.type: must be auto, any, tool or none",
		`{` + hi + `,"output_config":3}`:                                    "output_config: must be a JSON object",
		`{` + hi + `,"output_format":{"type":3}}`:                           "output_format.type: has the wrong JSON type: number",
		`{` + hi + `,"max_tokens":8}`:                                       `body: holds the name "max_tokens" twice`,
		`{` + hi + `,"model":3}`:                                            "model: has the wrong JSON type: number",
		`{` + hi + `,"stream":"yes"}`:                                       "stream: has the wrong JSON type: string",
		`{` + hi + `,"temperature":"x"}`:                                    "temperature: has the wrong JSON type: string",
		`{` + hi + `,"top_p":"x"}`:                                          "top_p: has the wrong JSON type: string",
		`{` + hi + `,"stop_sequences":"x"}`:                                 "stop_sequences: has the wrong JSON type: string",
		`{` + hi + `,"tools":{}}`:                                           "tools: must be an array",
		`{` + hi + `,"tools":[{"name":3}]}`:                                 "tools[0].name: has the wrong JSON type: number",
		`{"max_tokens":9,"messages":{}}`:                                    "messages: must be an array",
		user(`{"type":3}`):                                                  "messages[0].content[0].type: must be a string",
		user(`{"type":"text","text":3}`):                                    "messages[0].content[0].text: has the wrong JSON type: number",
		user(`{"type":"tool_use","id":3}`):                                  "messages[0].content[0].id: has the wrong JSON type: number",
		`{` + hi + `,"system":5}`:                                           "system: must be a string or an array",
	} {
		_, err := Dialect{}.Chat([]byte(body), nil)
		if e := apierr.From(err); err == nil || e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
	if _, err := (Dialect{}).Count([]byte(`{"messages":[{"role":"user","content":"hi"}]}`), nil); err != nil {
		t.Errorf("count: %v", err)
	}
}

// The language instruction goes before the system prompt in every form of it.
func TestLocalize(t *testing.T) {
	const first = `{"text":"i","type":"text"}`
	for system, want := range map[string]string{
		``:                               `[` + first + `]`,
		`,"system":null`:                 `[` + first + `]`,
		`,"system":"be \"kind\""`:        `[` + first + `,{"type":"text","text":"be \"kind\""}]`,
		`,"system":[ ]`:                  `[` + first + `]`,
		`,"system":[{"type":"text"},{}]`: `[` + first + `,{"type":"text"},{}]`,
	} {
		got, err := localize([]byte(`{"a":1`+system+`}`), "i")
		if want := `{"a":1,"system":` + want + `}`; err != nil || string(got) != want {
			t.Errorf("%s: %s, %v, want %s", system, got, err, want)
		}
	}
}

func FuzzChat(f *testing.F) {
	dialecttest.FuzzChat(f, Dialect{}, `{`+hi+`}`, `{"max_tokens":1,"system":[{"type":"text"}],"messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"x","content":[{}]}]}],"tools":[{"name":"f"}],"switchyard":{}}`)
}

var _ dialect.Dialect = Dialect{}

// Hints shut no vendor out: they are mapped, or named as ignored.
func TestHints(t *testing.T) {
	user := func(block string) string { return `"messages":[{"role":"user","content":[` + block + `]}]` }
	for body, want := range map[string]struct {
		reasoning *provider.Reasoning
		ignored   []string
	}{
		hi + `,"thinking":{"type":"enabled","budget_tokens":1024}`:                                                {&provider.Reasoning{BudgetTokens: 1024}, nil},
		hi + `,"thinking":{"type":"adaptive"},"output_config":{"effort":"high"}`:                                  {&provider.Reasoning{Effort: "high"}, nil},
		hi + `,"thinking":{"type":"disabled"},"output_config":{"effort":"high"}`:                                  {nil, nil},
		hi + `,"thinking":{"type":"adaptive","display":"omitted"}`:                                                {&provider.Reasoning{}, []string{"thinking.display"}},
		hi + `,"thinking":{"type":"adaptive"}`:                                                                    {&provider.Reasoning{}, nil},
		hi + `,"cache_control":{"type":"ephemeral"},"context_management":{"edits":[]},"top_k":5`:                  {nil, []string{"cache_control", "top_k", "context_management"}},
		hi + `,"tools":[{"name":"f","cache_control":{"type":"ephemeral"},"defer_loading":true}]`:                  {nil, []string{"cache_control", "defer_loading"}},
		hi + `,"system":[{"type":"text","text":"x","cache_control":{"a":1}}],"output_config":{"new":1}`:           {nil, []string{"cache_control", "output_config.new"}},
		`"max_tokens":9,` + user(`{"type":"text","text":"x","cache_control":{"type":"ephemeral"}}`):               {nil, []string{"cache_control"}},
		`"max_tokens":9,` + user(`{"type":"thinking","thinking":"x","signature":"s"},{"type":"text","text":"x"}`): {nil, []string{"thinking"}},
	} {
		got, err := Dialect{}.Chat([]byte("{"+body+"}"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want.reasoning, got.Chat.Reasoning); diff != "" || got.Only != "" {
			t.Errorf("%s: only %q, reasoning (-want +got):\n%s", body, got.Only, diff)
		}
		if diff := cmp.Diff(want.ignored, provider.Ignored(got.Hints, provider.HintSettings, "")); diff != "" {
			t.Errorf("%s: ignored (-want +got):\n%s", body, diff)
		}
	}
}

// Thinking before a call goes with it to a vendor of this dialect; the gateway's own doesn't.
func TestThinkingOfCalls(t *testing.T) {
	got, err := Dialect{}.Chat([]byte(`{"max_tokens":9,"messages":[{"role":"user","content":"a"},{"role":"assistant","content":[
		{"type":"thinking","thinking":"x","signature":"s"},{"type":"tool_use","id":"1","name":"f","input":{}},
		{"type":"thinking","thinking":"y","signature":"switchyard"},{"type":"tool_use","id":"2","name":"f","input":{}}]}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := got.Chat.Messages[1].ToolCalls
	if want := `{"anthropic":{"lead":[{"type":"thinking","thinking":"x","signature":"s"}]}}`; string(calls[0].Extra) != want || calls[1].Extra != nil {
		t.Errorf("%s and %s, want %s and nothing", calls[0].Extra, calls[1].Extra, want)
	}
}

func TestDocuments(t *testing.T) {
	got, err := Dialect{}.Chat([]byte(`{"max_tokens":9,"messages":[{"role":"user","content":[
		{"type":"document","title":"a","source":{"type":"base64","media_type":"application/pdf","data":"AAAA"},"citations":{"enabled":true}},
		{"type":"document","title":"b \"c\"","source":{"type":"text","media_type":"text/plain","data":"words"}},
		{"type":"document","source":{"type":"url","url":"https://x/a.pdf"}}]}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.Part{
		{File: &provider.File{Name: "a", URL: "data:application/pdf;base64,AAAA"}, Field: "messages[0].content[0].source.data"},
		{Text: "<document title=\"b &#34;c&#34;\">\nwords\n</document>"},
		{File: &provider.File{URL: "https://x/a.pdf"}, Field: "messages[0].content[2].source.url"},
	}
	if diff := cmp.Diff(want, got.Chat.Messages[0].Content); diff != "" || got.Only != "" || !got.Bounds.OpenInput {
		t.Errorf("only %q, bounds %+v, parts (-want +got):\n%s", got.Only, got.Bounds, diff)
	}
	if diff := cmp.Diff([]string{"citations"}, provider.Ignored(got.Hints, provider.HintSettings, "")); diff != "" {
		t.Errorf("ignored (-want +got):\n%s", diff)
	}
}

// Images in results follow all results of the turn.
func TestImagesInResults(t *testing.T) {
	got, err := Dialect{}.Chat([]byte(`{"max_tokens":9,"messages":[{"role":"user","content":[
		{"type":"tool_result","tool_use_id":"1","content":[{"type":"image","source":{"type":"url","url":"https://x/a"}}]},
		{"type":"tool_result","tool_use_id":"2","content":"two"},{"type":"text","text":"go on"}]}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.Message{
		{Role: provider.RoleTool, ToolCallID: "1", Content: []provider.Part{{Text: "The result follows below."}}},
		{Role: provider.RoleTool, ToolCallID: "2", Content: []provider.Part{{Text: "two"}}},
		{Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "https://x/a", Field: "messages[0].content[0].content[0].source.url"}, {Text: "go on"}}},
	}
	if diff := cmp.Diff(want, got.Chat.Messages); diff != "" || got.Only != "" {
		t.Errorf("only %q, messages (-want +got):\n%s", got.Only, diff)
	}
}
