package openai

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/api/dialect/dialecttest"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/inference"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

const hi = `"messages":[{"role":"user","content":"hi"}]`

func TestChat(t *testing.T) {
	body := `{"model":"m","stream":true,"stream_options":{"include_usage":true},"max_tokens":5,"max_completion_tokens":7,
	"temperature":0.5,"top_p":0.9,"seed":3,"stop":"END","parallel_tool_calls":false,"metadata":{"team":"a"},"user":"u","prompt_cache_key":"k",
	"n":1,"logprobs":false,"modalities":["text"],"frequency_penalty":0,"store":false,"service_tier":"auto","logit_bias":{ },
	"response_format":{"type":"json_object"},"tool_choice":{"type":"function","function":{"name":"f"}},
	"tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"},"strict":true}}],
	"messages":[
		{"role":"developer","content":"be kind"},
		{"role":"user","name":"ann","content":[{"type":"text","text":"look "},{"type":"image_url","image_url":{"url":"https://images.example/a.png","detail":"low"}}]},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"},"extra_content":{"google":{}}}]},
		{"role":"tool","tool_call_id":"c1","content":"sunny"},
		{"role":"assistant","content":[{"type":"refusal","refusal":"no"}],"refusal":"never"}],
	"top_k":40,"switchyard":{"provider":"first"}}`
	got, err := Dialect{}.Chat([]byte(body), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := provider.Chat{
		Messages: []provider.Message{
			{Role: provider.RoleSystem, Content: []provider.Part{{Text: "be kind"}}},
			{Role: provider.RoleUser, Name: "ann", Content: []provider.Part{{Text: "look "}, {ImageURL: "https://images.example/a.png", Detail: "low", Field: "messages[1].content[1].image_url.url"}}},
			{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c1", Name: "f", Arguments: "{}", Extra: json.RawMessage(`{"google":{}}`)}}},
			{Role: provider.RoleTool, ToolCallID: "c1", Content: []provider.Part{{Text: "sunny"}}},
			{Role: provider.RoleAssistant, Content: []provider.Part{{Text: "no"}, {Text: "never"}}},
		},
		Tools:          []provider.Tool{{Name: "f", Description: "d", Parameters: json.RawMessage(`{"type":"object"}`), Strict: true}},
		ToolChoice:     &provider.ToolChoice{Mode: "tool", Name: "f"},
		ResponseFormat: json.RawMessage(`{"type":"json_object"}`), MaxTokens: 7,
		Temperature: new(0.5), TopP: new(0.9), Stop: []string{"END"}, Seed: new(int64(3)), ParallelTools: new(false),
		FrequencyPenalty: new(0.0), EndUser: "u", CacheKey: "k",
	}
	native := got.Chat.Native
	got.Chat.Native = nil
	if diff := cmp.Diff(want, got.Chat); diff != "" {
		t.Errorf("chat (-want +got):\n%s", diff)
	}
	if got.Model != "m" || !got.Stream || !got.IncludeUsage {
		t.Errorf("model %q, stream %t, usage %t, want m, true, true", got.Model, got.Stream, got.IncludeUsage)
	}
	if got.Only != "" || got.Metadata["team"] != "a" {
		t.Errorf("only %q, metadata %v, want none and the team a", got.Only, got.Metadata)
	}
	if extension := string(got.Extension); extension != `{"provider":"first"}` {
		t.Errorf("extension %s", extension)
	}
	ignored := []string{"parallel_tool_calls", "seed", "user", "metadata", "prompt_cache_key", "top_k"}
	if diff := cmp.Diff(ignored, provider.Ignored(got.Hints, provider.HintSettings, "")); diff != "" {
		t.Errorf("hints (-want +got):\n%s", diff)
	}
	if want := strings.Replace(body, `,"switchyard":{"provider":"first"}`, "", 1); native.Dialect != "openai" || string(native.Body) != want {
		t.Errorf("native %s: %s", native.Dialect, native.Body)
	}
}

// Parts of an earlier answer that other dialects have no place for are named, unless they are empty.
func TestPartsOfEarlierAnswersAreNamed(t *testing.T) {
	for message, want := range map[string][]string{
		`"images":[{"type":"image_url","image_url":{"url":"data:image/png;base64,iVBORw0KGgo="}}]`:                                   {"images"},
		`"annotations":[{"type":"url_citation","url_citation":{"url":"https://source.example"}}],"reasoning_details":[{"text":"x"}]`: {"reasoning_details", "annotations"},
		`"images":[],"annotations":null,"reasoning_details":[]`:                                                                      nil,
	} {
		body := `{"model":"m","messages":[{"role":"user","content":"hi"},{"role":"assistant","content":"a",` + message + `},{"role":"user","content":"go on"}]}`
		got, err := Dialect{}.Chat([]byte(body), nil)
		if err != nil {
			t.Fatalf("%s: %v", message, err)
		}
		if diff := cmp.Diff(want, provider.Ignored(got.Hints, provider.HintSettings, "")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", message, diff)
		}
	}
}

// Fields that no other dialect can carry restrict the request to this one.
func TestOnlyThisDialect(t *testing.T) {
	for body, want := range map[string]string{
		`{` + hi + `,"n":2}`:                                                                 "n",
		`{` + hi + `,"logprobs":true,"top_logprobs":2}`:                                      "logprobs",
		`{` + hi + `,"audio":{"voice":"a"},"modalities":["text","audio"]}`:                   "audio",
		`{` + hi + `,"web_search_options":{}}`:                                               "web_search_options",
		`{` + hi + `,"service_tier":"flex"}`:                                                 "service_tier",
		`{` + hi + `,"tools":[{"type":"custom","custom":{"name":"c"}}]}`:                     "tools[0].type",
		`{` + hi + `,"tool_choice":{"type":"allowed_tools"}}`:                                "tool_choice.type",
		`{` + hi + `,"response_format":{"type":"grammar"}}`:                                  "response_format.type",
		`{"messages":[{"role":"function","name":"f","content":"x"}]}`:                        "messages[0].name",
		`{"messages":[{"role":"user","content":[{"type":"input_audio"}]}]}`:                  "messages[0].content[0].type",
		`{"messages":[{"role":"user","content":[{"type":"file","file":{"file_id":"f"}}]}]}`:  "messages[0].content[0].file.file_id",
		`{"messages":[{"role":"assistant","audio":{"id":"a"}}]}`:                             "messages[0].audio",
		`{"messages":[{"role":"assistant","tool_calls":[{"type":"custom"}]}]}`:               "messages[0].tool_calls[0].type",
		`{` + hi + `,"n":null,"audio":null,"logprobs":null,"unheard_of":null}`:               "",
		`{` + hi + `,"n":1,"logprobs":false,"modalities": [ "text" ],"seed":null}`:           "",
		`{` + hi + `,"presence_penalty":0,"logit_bias":{},"store":false,"metadata":{}}`:      "",
		`{` + hi + `,"verbosity":"medium","parallel_tool_calls":true,"service_tier":"auto"}`: "",
	} {
		got, err := Dialect{}.Chat([]byte(body), nil)
		if err != nil || got.Only != want || (want != "") != (got.Needs().Dialect == "openai") {
			t.Errorf("%s: only %+v, %v, want %q", body, got, err, want)
		}
		if err == nil && len(provider.Ignored(got.Hints, provider.HintSettings, "")) > 0 {
			t.Errorf("%s: unknown %v", body, provider.Ignored(got.Hints, provider.HintSettings, ""))
		}
	}
}

func TestChatRefuses(t *testing.T) {
	for body, want := range map[string]string{
		``:                          "body: invalid JSON at byte 0",
		`[]`:                        "body: must be a JSON object",
		`{"messages":[}`:            "body: invalid JSON at byte",
		`{}`:                        "messages: must hold a message",
		`{"messages":"x"}`:          "messages: must be an array",
		`{"messages":[]}`:           "messages: must hold a message",
		`{"messages":[3]}`:          "messages[0]: has the wrong JSON type: number",
		`{"messages":[{"role":3}]}`: "messages[0].role: has the wrong JSON type: number",
		`{"messages":[{"role":"robot","content":"x"}]}`:                                                    "messages[0].role: must be",
		`{"messages":[{"role":"tool","content":"x"}]}`:                                                     "messages[0].tool_call_id: is required",
		`{"messages":[{"role":"user","content":3}]}`:                                                       "messages[0].content: must be a string or an array",
		`{"messages":[{"role":"user","content":[{"text":"x"}]}]}`:                                          "messages[0].content[0].type: is required",
		`{"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://x/a"}}]}]}`: "messages[0].content[0].image_url.url: must be an https URL",
		`{` + hi + `,"model":3}`:                                                                           "model: has the wrong JSON type: number",
		`{` + hi + `,"stream":"yes"}`:                                                                      "stream: has the wrong JSON type: string",
		`{` + hi + `,"max_tokens":0}`:                                                                      "max_tokens: must be a whole number from 1 to 10000000",
		`{` + hi + `,"max_completion_tokens":-1}`:                                                          "max_completion_tokens: must be a whole number from 1 to 10000000",
		`{` + hi + `,"temperature":"hot"}`:                                                                 "temperature: has the wrong JSON type: string",
		`{` + hi + `,"top_p":"x"}`:                                                                         "top_p: has the wrong JSON type: string",
		`{` + hi + `,"seed":"x"}`:                                                                          "seed: has the wrong JSON type: string",
		`{` + hi + `,"parallel_tool_calls":1}`:                                                             "parallel_tool_calls: has the wrong JSON type: number",
		`{` + hi + `,"max_tokens":"x"}`:                                                                    "max_tokens: must be a whole number from 1 to 10000000",
		`{"messages":[{"role":"user","content":"x","name":3}]}`:                                            "messages[0].name: has the wrong JSON type: number",
		`{"messages":[{"role":"assistant","tool_calls":{}}]}`:                                              "messages[0].tool_calls: has the wrong JSON type: object",
		`{` + hi + `,"tools":[{"type":"function","function":{"name":3}}]}`:                                 "tools[0].function.name: has the wrong JSON type: number",
		`{` + hi + `,"stop":3}`:                                                                            "stop: has the wrong JSON type: number",
		`{` + hi + `,"tools":{}}`:                                                                          "tools: must be an array",
		`{` + hi + `,"tools":[{"type":"function","function":{}}]}`:                                         "tools[0].function.name: is required",
		`{` + hi + `,"tool_choice":"maybe"}`:                                                               "tool_choice: must be auto, none, required",
		`{` + hi + `,"response_format":"json"}`:                                                            "response_format: has the wrong JSON type: string",
		`{` + hi + `,"model":"a","model":"b"}`:                                                             `body: holds the name "model" twice`,
		`{` + hi + `,"mod\u0065l":"b"}`:                                                                    `body: writes the name "model" with an escape`,
		`{` + hi + `,"metadata":{"a":1}}`:                                                                  "metadata: has the wrong JSON type: number",
		`{` + hi + `,"stream_options":[]}`:                                                                 "stream_options: has the wrong JSON type: array",
		`{"messages":[{"role":"user","content":"sk-secret"},"sk"]}`:                                        "messages[1]: has the wrong JSON type: string",
	} {
		_, err := Dialect{}.Chat([]byte(body), nil)
		e := apierr.From(err)
		if err == nil || e.Kind != apierr.KindInvalid || !strings.HasPrefix(e.Text, want) {
			t.Errorf("%s: %v, want %s", body, err, want)
			continue
		}
		if strings.Contains(e.Text, "sk-") {
			t.Errorf("%s: the text repeats the value: %s", body, e.Text)
		}
	}
}

// The language instruction goes before the messages; nothing else changes.
func TestLocalize(t *testing.T) {
	got, err := localize([]byte(`{"a":1, "messages": [ {"role":"user","content":"hi"}] ,"x":{"y":1e3}}`), `Respond in "de".`)
	want := `{"a":1, "messages": [{"content":"Respond in \"de\".","role":"system"},{"role":"user","content":"hi"}] ,"x":{"y":1e3}}`
	if err != nil || string(got) != want {
		t.Errorf("%s, %v", got, err)
	}
}

func FuzzChat(f *testing.F) {
	dialecttest.FuzzChat(f, Dialect{}, `{`+hi+`}`, `{"messages":[{"role":"user","content":[{"type":"text"}]}],"tools":[{}],"stop":["a"],"switchyard":{}}`, `{"messages":null}`)
}

var _ dialect.Dialect = Dialect{}

// Hints shut no vendor out.
func TestHints(t *testing.T) {
	low := &provider.Reasoning{Effort: "low"}
	for fields, want := range map[string]*provider.Reasoning{
		`"store":true,"verbosity":"low","user":"u","service_tier":"auto"`: nil,

		`"reasoning_effort":"low"`: low,

		`"reasoning_effort":"low","reasoning":{"effort":"high"}`: low,

		`"reasoning":{"effort":"low"}`: low,

		`"reasoning":{"max_tokens":2048}`: {BudgetTokens: 2048},

		`"reasoning_effort":null,"reasoning":{}`: nil,
	} {
		got, err := Dialect{}.Chat([]byte(`{"messages":[{"role":"user","content":"hi"}],`+fields+`}`), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got.Chat.Reasoning); diff != "" || got.Only != "" {
			t.Errorf("%s: only %q, reasoning (-want +got):\n%s", fields, got.Only, diff)
		}
	}
	got, err := Dialect{}.Chat([]byte(`{"messages":[{"role":"user","content":"hi"}],"reasoning_effort":"enormous"}`), nil)
	if err != nil || got.Only != "reasoning_effort" {
		t.Errorf("an effort that isn't known: %+v, %v, want the dialect's own", got, err)
	}
}

func TestFiles(t *testing.T) {
	got, err := Dialect{}.Chat([]byte(`{"messages":[{"role":"user","content":[{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,AAAA"}}]}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	want := []provider.Part{{File: &provider.File{Name: "a.pdf", URL: "data:application/pdf;base64,AAAA"}, Field: "messages[0].content[0].file.file_data"}}
	if diff := cmp.Diff(want, got.Chat.Messages[0].Content); diff != "" || got.Only != "" {
		t.Errorf("only %q, parts (-want +got):\n%s", got.Only, diff)
	}
}

// Functions, the predecessor of tools, are mapped to tools, and calls back to theirs.
func TestFunctions(t *testing.T) {
	got, err := Dialect{}.Chat([]byte(`{"functions":[{"name":"f","description":"d","parameters":{"type":"object"}}],"function_call":{"name":"f"},"messages":[
		{"role":"user","content":"hi"},{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"1"},
		{"role":"assistant","content":null,"function_call":{"name":"f","arguments":"{}"}},{"role":"function","name":"f","content":"2"}]}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	call := func(id string) []provider.ToolCall { return []provider.ToolCall{{ID: id, Name: "f", Arguments: "{}"}} }
	want := []provider.Message{
		{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}},
		{Role: provider.RoleAssistant, ToolCalls: call("call_0")},
		{Role: provider.RoleTool, Name: "f", ToolCallID: "call_0", Content: []provider.Part{{Text: "1"}}},
		{Role: provider.RoleAssistant, ToolCalls: call("call_1")},
		{Role: provider.RoleTool, Name: "f", ToolCallID: "call_1", Content: []provider.Part{{Text: "2"}}},
	}
	if diff := cmp.Diff(want, got.Chat.Messages); diff != "" || got.Only != "" {
		t.Errorf("only %q, messages (-want +got):\n%s", got.Only, diff)
	}
	if diff := cmp.Diff(&provider.ToolChoice{Mode: "tool", Name: "f"}, got.Chat.ToolChoice); diff != "" {
		t.Errorf("choice (-want +got):\n%s", diff)
	}
	calls := []provider.ToolCall{{Index: 0, ID: "1", Name: "f", Arguments: "{}"}, {Index: 1, ID: "2", Name: "f"}}
	whole, err := got.Writer.Answer(dialect.Reply{Model: "m"}, &inference.Completion{ToolCalls: calls, FinishReason: provider.FinishToolCalls})
	const function = `"function_call":{"name":"f","arguments":"{}"}`
	if text := string(whole); err != nil || !strings.Contains(text, function) || !strings.Contains(text, `"finish_reason":"function_call"`) || strings.Contains(text, "tool_calls") {
		t.Errorf("%s, %v", whole, err)
	}
	stream := got.Writer.Stream(dialect.Reply{Model: "m"})
	text := string(stream.Event(provider.Event{ToolCalls: calls})) // Valid until the next call.
	text += string(stream.End(provider.FinishToolCalls, ledger.Report{}))
	if !strings.Contains(text, function) || !strings.Contains(text, `"finish_reason":"function_call"`) || strings.Contains(text, "tool_calls") {
		t.Errorf("streamed %s", text)
	}
	for body, want := range map[string]string{
		`"functions":[{}]`: "functions[0].name: is required",
		`"functions":7`:    "functions: must be an array",
		`"functions":[{"name":"f"}],"function_call":7`:      "function_call: has the wrong JSON type: number",
		`"functions":[{"name":"f"}],"function_call":"must"`: "function_call: must be auto, none or a function",
	} {
		_, err := Dialect{}.Chat([]byte(`{`+hi+`,`+body+`}`), nil)
		if err == nil || !strings.HasPrefix(apierr.From(err).Text, want) {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
