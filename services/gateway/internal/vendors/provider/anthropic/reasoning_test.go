package anthropic

import (
	"cmp"
	"encoding/json"
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

func TestReasoning(t *testing.T) {
	tools := []provider.Tool{{Name: "f"}}
	called := func(extra string) []provider.Message {
		return []provider.Message{
			{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}},
			{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "{}", Extra: json.RawMessage(extra)}}},
			{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{{Text: "x"}}},
		}
	}
	high := &provider.Reasoning{Effort: "high"}
	required := &provider.Reasoning{Effort: "high", Required: true}
	for name, c := range map[string]struct {
		chat provider.Chat
		want string // of the request; an error where it begins with "!"
	}{
		"nothing asked":             {provider.Chat{Model: "claude-opus-4-6"}, ``},
		"switched off":              {provider.Chat{Model: "claude-opus-4-6", Reasoning: &provider.Reasoning{Effort: "none"}}, ``},
		"adaptive":                  {provider.Chat{Model: "claude-opus-4-6", Reasoning: high}, `"output_config":{"effort":"high"},"thinking":{"type":"adaptive"}`},
		"adaptive by budget":        {provider.Chat{Model: "claude-sonnet-5", Reasoning: &provider.Reasoning{BudgetTokens: 9000}}, `"output_config":{"effort":"medium"},"thinking":{"type":"adaptive"}`},
		"adaptive, no level":        {provider.Chat{Model: "claude-opus-5", Reasoning: &provider.Reasoning{Summary: "auto"}}, `"thinking":{"type":"adaptive"}`},
		"xhigh where there is none": {provider.Chat{Model: "claude-opus-4-6", Reasoning: &provider.Reasoning{Effort: "xhigh"}}, `"effort":"high"`},
		"xhigh where there is":      {provider.Chat{Model: "claude-opus-4-7", Reasoning: &provider.Reasoning{Effort: "xhigh"}}, `"effort":"xhigh"`},
		"minimal":                   {provider.Chat{Model: "claude-opus-4-7", Reasoning: &provider.Reasoning{Effort: "minimal"}}, `"effort":"low"`},
		"a budget":                  {provider.Chat{Model: "claude-sonnet-4-20250514", Reasoning: high}, `"max_tokens":20480,"messages":null,"thinking":{"type":"enabled","budget_tokens":16384}`},
		"a budget within a bound":   {provider.Chat{Model: "claude-opus-4-5", MaxTokens: 5000, Reasoning: high}, `"max_tokens":5000,"messages":null,"thinking":{"type":"enabled","budget_tokens":4999}`},
		"too little room":           {provider.Chat{Model: "claude-opus-4-5", MaxTokens: 1000, Reasoning: high}, ``},
		"too little, required":      {provider.Chat{Model: "claude-opus-4-5", MaxTokens: 1000, Reasoning: required}, "!reasoning: this provider thinks with 1024 tokens at least"},
		"a temperature":             {provider.Chat{Model: "claude-opus-4-6", Temperature: new(0.5), Reasoning: high}, ``},
		"a temperature, required":   {provider.Chat{Model: "claude-opus-4-6", Temperature: new(0.5), Reasoning: required}, "!reasoning: this provider can't think with a temperature"},
		"a demanded call":           {provider.Chat{Model: "claude-opus-4-6", Tools: tools, ToolChoice: &provider.ToolChoice{Mode: "required"}, Reasoning: high}, ``},
		"calls of another vendor":   {provider.Chat{Model: "claude-opus-4-5", Messages: called(`{"google":{}}`), Reasoning: high}, ``},
		"calls of its own":          {provider.Chat{Model: "claude-opus-4-5", Messages: called(`{"anthropic":{"lead":[{"type":"thinking"}]}}`), Reasoning: high}, `"thinking":{"type":"enabled"`},
		"adaptive takes all calls":  {provider.Chat{Model: "claude-opus-4-6", Messages: called(`{}`), Reasoning: high}, `"thinking":{"type":"adaptive"}`},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := encode(&c.chat, false, cmp.Or(c.chat.MaxTokens, 8192))
			text, isError := strings.CutPrefix(c.want, "!")
			switch {
			case isError:
				if err == nil || !strings.Contains(err.Error(), text) {
					t.Errorf("%v, want %s", err, text)
				}
				return
			case err != nil:
				t.Fatal(err)
			}
			got, err := json.Marshal(r)
			if err != nil || !strings.Contains(string(got), c.want) || c.want == "" && strings.Contains(string(got), "thinking") {
				t.Errorf("%s, %v, want %q", got, err, c.want)
			}
		})
	}
}

func TestVersion(t *testing.T) {
	for model, want := range map[string]int{
		"claude-opus-4-6": 406, "claude-sonnet-4-20250514": 400, "claude-opus-4-5-20251101": 405, "claude-3-7-sonnet-20250219": 307,
		"claude-3-opus-20240229": 300, "claude-3-5-haiku-latest": 305, "anthropic.claude-opus-4-6-v1:0": 406, "claude-opus-5": 500,
		"claude-instant": 0, "gpt-5": 0, "": 0, "claude-opus-99999999999": 0,
	} {
		if got := Version(model); got != want {
			t.Errorf("%s: %d, want %d", model, got, want)
		}
	}
}
