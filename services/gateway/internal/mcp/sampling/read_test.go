package sampling

import (
	"encoding/json"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/testkit/growth"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares a value's JSON with a file of testdata.
func golden(t *testing.T, name string, value any) {
	t.Helper()
	path := filepath.Join("testdata", name)
	text, err := jsontext.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	if *update {
		if err := os.WriteFile(path, append(text, '\n'), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(strings.TrimSpace(string(want)), string(text)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

func requestOf(tb testing.TB, name string) []byte {
	tb.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", name+".request.json"))
	if err != nil {
		tb.Fatal(err)
	}
	return text
}

func TestRead(t *testing.T) {
	for _, name := range []string{"basic", "settings", "tools"} {
		q, err := read(requestOf(t, name), name == "tools")
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		golden(t, name+".chat.json", struct {
			Hints []string
			Goal  string
			Chat  provider.Chat
		}{q.hints, string(q.goal), q.chat})
	}
}

const (
	hello = `"messages":[{"role":"user","content":{"type":"text","text":"hi"}}],"maxTokens":10`
	use   = `{"role":"assistant","content":{"type":"tool_use","id":"c1","name":"f","input":{}}}`
)

// saying returns parameters with messages.
func saying(messages string) string { return `{"maxTokens":10,"messages":[` + messages + `]}` }

// content returns parameters with one message of a content.
func content(role, blocks string) string {
	return saying(`{"role":"` + role + `","content":` + blocks + `}`)
}

func TestReadRefuses(t *testing.T) {
	const text = `{"type":"text","text":"x"}`
	many := func(element string, n int) string { return strings.TrimSuffix(strings.Repeat(element+",", n), ",") }
	for _, c := range []struct{ text, want string }{
		{``, "params.maxTokens: is required"},
		{`[]`, "params: must be a JSON object"},
		{`{`, "params: must be JSON in valid UTF-8, without single surrogates"},
		{`{"messages":[{"role":"user","role":"user"}]}`, "params.messages[0].role: must not hold a name twice"},
		{`{` + hello + `,"x":` + strings.Repeat("[", 70) + strings.Repeat("]", 70) + `}`, ": must not be nested deeper than 64 levels"},
		{`{` + hello + `,"metadata":{"n":12345678901234567890}}`, "params.metadata.n: must be"},
		{`{"messages":[],"maxTokens":1}`, "params.messages: is required"},
		{`{"messages":{},"maxTokens":1}`, "params.messages: must be an array"},
		{saying(many(`{"role":"user","content":`+text+`}`, 257)), "params.messages: must have at most 256 elements"},
		{`{"messages":[1],"maxTokens":1}`, "params.messages[0]: must be an object"},
		{`{"messages":[{"role":1}],"maxTokens":1}`, "params.messages[0].role: must be a string"},
		{`{"messages":[]}`, "params.maxTokens: is required"},
		{`{"messages":[],"maxTokens":-5}`, "params.maxTokens: must be 1 or more"},
		{`{"messages":[],"maxTokens":0}`, "params.maxTokens: must be 1 or more"},
		{`{"messages":[],"maxTokens":1.5}`, "params.maxTokens: must be an integer"},
		{`{"messages":[],"maxTokens":"10"}`, "params.maxTokens: must be an integer"},
		{`{` + hello + `,"temperature":2.5}`, "params.temperature: must be 0 to 2"},
		{`{` + hello + `,"temperature":-0.1}`, "params.temperature: must be 0 to 2"},
		{`{` + hello + `,"systemPrompt":["x"]}`, "params.systemPrompt: must be a string"},
		{`{` + hello + `,"metadata":"x"}`, "params.metadata: must be an object"},
		{`{` + hello + `,"stopSequences":["a",""]}`, "params.stopSequences[1]: must have 1 to 256 bytes"},
		{`{` + hello + `,"stopSequences":["` + strings.Repeat("x", 257) + `"]}`, "params.stopSequences[0]: must have 1 to 256 bytes"},
		{`{` + hello + `,"stopSequences":[1]}`, "params.stopSequences[0]: must be a string"},
		{`{` + hello + `,"stopSequences":[` + many(`"x"`, 17) + `]}`, "params.stopSequences: must have at most 16 elements"},
		{`{` + hello + `,"modelPreferences":1}`, "params.modelPreferences: must be an object"},
		{`{` + hello + `,"modelPreferences":{"hints":[{"name":1}]}}`, "params.modelPreferences.hints[0].name: must be a string"},
		{`{` + hello + `,"modelPreferences":{"hints":[{"name":"` + strings.Repeat("x", 257) + `"}]}}`, "params.modelPreferences.hints[0].name: must have at most 256 bytes"},
		{`{` + hello + `,"modelPreferences":{"hints":[` + many("{}", 17) + `]}}`, "params.modelPreferences.hints: must have at most 16 elements"},
		{`{` + hello + `,"modelPreferences":{"costPriority":1.5}}`, "params.modelPreferences.costPriority: must be 0 to 1"},
		{content("system", text), "params.messages[0].role: must be user or assistant"},
		{content("user", `"hi"`), "params.messages[0].content: must be an object or an array"},
		{content("user", `[]`), "params.messages[0].content: must not be empty"},
		{content("user", `[`+many(text, 65)+`]`), "params.messages[0].content: must have at most 64 elements"},
		{content("user", `{"type":"text"}`), "params.messages[0].content.text: is required"},
		{content("user", `[`+text+`,{"type":"text","text":1}]`), "params.messages[0].content[1].text: must be a string"},
		{content("user", `{"type":"audio","data":"aGk=","mimeType":"audio/wav"}`), "params.messages[0].content.type: audio is not supported"},
		{content("user", `{"type":"resource_link","uri":"x"}`), "params.messages[0].content.type: must be text, image, tool_use or tool_result"},
		{content("user", `{"type":"image","data":"aGk=","mimeType":"image/svg+xml"}`), "params.messages[0].content.mimeType: must be image/png, image/jpeg, image/webp or image/gif"},
		{content("user", `{"type":"image","data":"a;b,","mimeType":"image/png"}`), "params.messages[0].content.data: must be base64"},
		{content("user", `{"type":"image","data":"a=b=","mimeType":"image/png"}`), "params.messages[0].content.data: must be base64"},
		{content("user", `{"type":"image","mimeType":"image/png"}`), "params.messages[0].content.data: must be base64"},
		{content("assistant", `{"type":"image","data":"aGk=","mimeType":"image/png"}`), "params.messages[0].content.type: images are for user messages only"},
		{`{` + hello + `,"toolChoice":{"mode":"auto"}}`, "params.toolChoice: needs tools"},
		{`{` + hello + `,"tools":{}}`, "params.tools: must be an array"},
		{`{` + hello + `,"tools":[{"name":"f","inputSchema":{}}],"toolChoice":{"mode":"any"}}`, "params.toolChoice.mode: must be auto, required or none"},
		{`{` + hello + `,"tools":[{"name":"f g","inputSchema":{}}]}`, `params.tools[0].name: must have 1 to 128 letters, digits, "_", ".", ":" and "-"`},
		{`{` + hello + `,"tools":[{"name":"f","inputSchema":true}]}`, "params.tools[0].inputSchema: must be an object"},
		{`{` + hello + `,"tools":[{"name":"f"}]}`, "params.tools[0].inputSchema: must be an object"},
		{`{` + hello + `,"tools":[` + many(`{"name":"f","inputSchema":{}}`, 2) + `]}`, "params.tools[1].name: appears twice"},
		{`{` + hello + `,"tools":[` + many(`{"name":"f","inputSchema":{}}`, 129) + `]}`, "params.tools"},
		{`{` + hello + `,"tools":[{"name":"f","inputSchema":{},"description":"` + strings.Repeat("x", 32<<10+1) + `"}]}`, "params.tools[0].description: must have at most 32768 bytes"},
		{content("user", `{"type":"tool_use","id":"c1","name":"f","input":{}}`), "params.messages[0].content.type: tools are used by assistant messages only"},
		{content("assistant", `{"type":"tool_use","name":"f","input":{}}`), "params.messages[0].content.id: must have 1 to 256 bytes"},
		{content("assistant", `{"type":"tool_use","id":"c","name":"","input":{}}`), "params.messages[0].content.name: must have 1 to 128"},
		{content("assistant", `{"type":"tool_use","id":"c","name":"f","input":[]}`), "params.messages[0].content.input: must be an object"},
		{content("assistant", `[`+many(`{"type":"tool_use","id":"c","name":"f","input":{}}`, 2)+`]`), "params.messages[0].content[1].id: appears twice"},
		{saying(use), "params.messages: must end with the results of all tools that were used"},
		{saying(use + `,{"role":"user","content":` + text + `}`), "params.messages[1].content.type: must be tool_result"},
		{saying(use + `,{"role":"assistant","content":` + text + `}`), "params.messages[1].role: must be user in the message with tool results"},
		{saying(use + `,{"role":"user","content":[{"type":"tool_result","toolUseId":"c1","content":[]},` + text + `]}`), "params.messages[1].content[1].type: must be tool_result"},
		{saying(use + `,{"role":"user","content":{"type":"tool_result","toolUseId":"c2","content":[]}}`), "params.messages[1].content.toolUseId: must be the id of a tool_use in the message before"},
		{saying(use + `,{"role":"user","content":[` + many(`{"type":"tool_result","toolUseId":"c1","content":[]}`, 2) + `]}`), "params.messages[1].content[1].toolUseId: must be the id"},
		{saying(`{"role":"assistant","content":[{"type":"tool_use","id":"a","name":"f","input":{}},{"type":"tool_use","id":"b","name":"f","input":{}}]},` +
			`{"role":"user","content":{"type":"tool_result","toolUseId":"a","content":[]}}`), "params.messages[1].content: must have a result of each tool"},
		{
			saying(use + `,{"role":"user","content":{"type":"tool_result","toolUseId":"c1","content":[{"type":"image","data":"aGk=","mimeType":"image/png"}]}}`),
			"params.messages[1].content.content[0]: must be text",
		},
		{saying(use + `,{"role":"user","content":{"type":"tool_result","toolUseId":"c1","content":"x"}}`), "params.messages[1].content.content: must be an array"},
		{content("user", `{"type":"tool_result","toolUseId":"c1","content":[]}`), "params.messages[0].content.toolUseId: must be the id"},
		{`{"x":"` + strings.Repeat("x", 1<<20) + `"}`, "params: must be at most 1 MiB"},
	} {
		_, err := read([]byte(c.text), true)
		refused, ok := errors.AsType[*apierr.Error](err)
		if !ok || refused.Kind != apierr.KindInvalid || !strings.Contains(refused.Text, c.want) || !strings.HasPrefix(refused.Text, "params") {
			t.Errorf("%.200s: %v, want %s", c.text, err, c.want)
		}
	}
}

// A server that may use no tools is refused all that has to do with them.
func TestReadRefusesTools(t *testing.T) {
	for text, field := range map[string]string{
		`{` + hello + `,"tools":[]}`:      "params.tools",
		`{` + hello + `,"toolChoice":{}}`: "params.toolChoice",
		saying(use):                       "params.messages[0].content.type",
		content("user", `{"type":"tool_result","toolUseId":"c1","content":[]}`): "params.messages[0].content",
	} {
		_, err := read([]byte(text), false)
		if err == nil || !strings.HasPrefix(err.Error(), field+": must be absent: the policy") {
			t.Errorf("%s: %v", text, err)
		}
	}
	if q, err := read([]byte(`{`+hello+`,"tools":null,"toolChoice":null}`), false); err != nil || q.chat.Tools != nil {
		t.Errorf("without tools: %+v, %v", q, err)
	}
}

func TestGoal(t *testing.T) {
	for text, want := range map[string]string{
		`{}`:                 "",
		`{"costPriority":1}`: "cost", `{"speedPriority":0.1}`: "latency", `{"intelligencePriority":0.9,"costPriority":0.8}`: "quality",
		`{"costPriority":1,"speedPriority":1}`: "",
	} {
		q, err := read([]byte(`{`+hello+`,"modelPreferences":`+text+`}`), false)
		if err != nil || string(q.goal) != want {
			t.Errorf("%s: %+v, %v, want %q", text, q, err, want)
		}
	}
}

func TestReadGrowsLinearly(t *testing.T) {
	growth.Linear(t, growth.Each(append(growth.JSON,
		growth.Number("messages", `{"maxTokens":1,"messages":[`, `{"role":"user","content":{"type":"text","text":"#"}},`, `{}]}`),
		growth.Number("blocks", `{"maxTokens":1,"messages":[{"role":"user","content":[`, `{},`, `{}]}]}`),
		growth.Number("tools", `{"maxTokens":1,"tools":[`, `{"name":"f#","inputSchema":{}},`, `{}]}`),
	), func(text []byte) { _, _ = read(text, true) })...)
}

// What is read is a chat that the gateway could have been asked for, and the same again from its canonical form.
func FuzzRead(f *testing.F) {
	for _, name := range []string{"basic", "settings", "tools"} {
		f.Add(requestOf(f, name), true)
	}
	f.Add([]byte(`{`+hello+`}`), false)
	f.Add([]byte(saying(use)), false)
	f.Fuzz(func(t *testing.T, text []byte, tools bool) {
		q, err := read(text, tools)
		if err != nil {
			if refused, ok := errors.AsType[*apierr.Error](err); !ok || refused.Kind != apierr.KindInvalid || !strings.HasPrefix(refused.Text, "params") {
				t.Fatalf("%q: %v", text, err)
			}
			return
		}
		if len(q.chat.Messages) == 0 || q.chat.MaxTokens < 1 || len(q.chat.Tools) > maxTools || !tools && len(q.chat.Tools) > 0 {
			t.Fatalf("%q: %+v", text, q)
		}
		open := 0
		for i := range q.chat.Messages {
			m := &q.chat.Messages[i]
			if open > 0 && m.Role != provider.RoleTool || len(m.ToolCalls) > 0 && !tools {
				t.Fatalf("%q: a call without a result, or one that may not be: %+v", text, m)
			}
			if m.Role == provider.RoleTool {
				open--
			}
			open += len(m.ToolCalls)
			for _, call := range m.ToolCalls {
				if !json.Valid([]byte(call.Arguments)) {
					t.Fatalf("%q: %+v", text, call)
				}
			}
		}
		again, err := read(q.text, tools)
		if err != nil || !cmp.Equal(q.chat, again.chat) {
			t.Fatalf("%q: again %+v, %v", text, again, err)
		}
	})
}
