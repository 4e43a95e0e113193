package provider

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/deploy/fakes/fault"
)

func TestRespond(t *testing.T) {
	weather := tool{name: "weather", schema: json.RawMessage(`{"type":"object","properties":{
		"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]},"at":{"type":"object","properties":{"lat":{"type":"number"}}}}}`)}
	clock := tool{name: "clock"}
	tests := []struct {
		name   string
		prompt prompt
		script Answer
		want   reply
	}{
		{
			name:   "repeats the last user text",
			prompt: prompt{texts: []string{"be kind", "hello"}, lastUser: "hello"},
			want:   reply{text: "You said: hello", finish: "stop", usage: &Usage{Input: 3, Output: 3}},
		},
		{
			name:   "a picture counts",
			prompt: prompt{texts: []string{"look"}, lastUser: "look", images: 2},
			want:   reply{text: "You said: look", finish: "stop", usage: &Usage{Input: 171, Output: 3}},
		},
		{
			name:   "stops at the limit",
			prompt: prompt{texts: []string{"hello"}, lastUser: "hello", maxTokens: 2},
			want:   reply{text: "You said", finish: "length", usage: &Usage{Input: 1, Output: 2}},
		},
		{
			name:   "asked to use a tool",
			prompt: prompt{texts: []string{"Use tool"}, lastUser: "Use tool", tools: []tool{weather, clock}},
			want: reply{
				calls:  []ToolCall{{Name: "weather", Arguments: json.RawMessage(`{"at":{"lat":1},"city":"Use tool","days":1,"unit":"C"}`)}},
				finish: "tool_calls", usage: &Usage{Input: 2, Output: 15},
			},
		},
		{
			name:   "tools that nobody asks for",
			prompt: prompt{texts: []string{"hello"}, lastUser: "hello", tools: []tool{weather}},
			want:   reply{text: "You said: hello", finish: "stop", usage: &Usage{Input: 1, Output: 3}},
		},
		{
			name:   "asked for, but forbidden",
			prompt: prompt{texts: []string{"use tool"}, lastUser: "use tool", tools: []tool{weather}, force: "none"},
			want:   reply{text: "You said: use tool", finish: "stop", usage: &Usage{Input: 2, Output: 4}},
		},
		{
			name:   "forced by name",
			prompt: prompt{texts: []string{"hello"}, lastUser: "hello", tools: []tool{weather, clock}, forceName: "clock"},
			want:   reply{calls: []ToolCall{{Name: "clock", Arguments: json.RawMessage(`{}`)}}, finish: "tool_calls", usage: &Usage{Input: 1, Output: 1}},
		},
		{
			name:   "reads the tool's result back and does not call again",
			prompt: prompt{texts: []string{"use tool", "sunny"}, lastUser: "use tool", toolResult: new("sunny"), tools: []tool{weather}},
			want:   reply{text: "Tool said: sunny", finish: "stop", usage: &Usage{Input: 3, Output: 4}},
		},
		{
			name:   "the script decides",
			prompt: prompt{texts: []string{"hello"}, lastUser: "hello"},
			script: Answer{Text: new("no"), ToolCalls: []ToolCall{{Name: "a"}}, FinishReason: "content_filter", Usage: &Usage{Input: 9, CacheRead: 8}},
			want:   reply{text: "no", calls: []ToolCall{{Name: "a", Arguments: json.RawMessage(`{}`)}}, finish: "content_filter", usage: &Usage{Input: 9, CacheRead: 8}},
		},
		{
			name:   "the script hides usage and says nothing",
			prompt: prompt{texts: []string{"hello"}, lastUser: "hello"},
			script: Answer{Text: new(""), NoUsage: true},
			want:   reply{finish: "stop"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := respond(tt.prompt, tt.script)
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(reply{})); diff != "" {
				t.Errorf("reply (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzWords(f *testing.F) {
	for _, seed := range []string{"", " ", "one", "one two", "  spaced  out ", "\u00e9t\u00e9 na\u00efve"} {
		f.Add(seed, 3)
	}
	f.Fuzz(func(t *testing.T, text string, n int) {
		pieces := words(text)
		if got := strings.Join(pieces, ""); got != text {
			t.Errorf("joined %q, want %q", got, text)
		}
		for _, p := range pieces {
			if p == "" {
				t.Errorf("an empty piece in %q", pieces)
			}
		}
		if n = max(n, 0); utf8.ValidString(text) {
			if got := cutText(text, n); len(got) > n || !utf8.ValidString(got) || !strings.HasPrefix(text, got) {
				t.Errorf("cutText(%q, %d) = %q", text, n, got)
			}
		}
	})
}

func FuzzReadContent(f *testing.F) {
	for _, seed := range []string{`null`, `"x"`, `[{"type":"text","text":"x"},{"type":"image"}]`, `[{"type":"tool_result","content":[{"type":"text","text":"x"}]}]`, `3`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := readContent(raw)
		if err != nil && (c.text != "" || c.images != 0) {
			t.Errorf("readContent(%q) = %+v beside error %v", raw, c, err)
		}
	})
}

func TestScriptedAnswersAreChecked(t *testing.T) {
	for raw, ok := range map[string]bool{
		`{"text":"x","tool_calls":[{"name":"a","arguments":{"b":1}}],"finish_reason":"length","usage":{"input":1},"no_usage":true}`: true,
		`{"txt":"x"}`:              false,
		`{"finish_reason":"done"}`: false,
	} {
		err := New(fault.Script{}).Append(fault.Script{Rules: []fault.Rule{{Action: fault.Action{Answer: json.RawMessage(raw)}}}})
		if (err == nil) != ok {
			t.Errorf("%s: error %v", raw, err)
		}
	}
}
