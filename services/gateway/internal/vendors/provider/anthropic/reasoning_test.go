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
	asked := provider.Message{Role: provider.RoleUser, Content: []provider.Part{{Text: "go on"}}}
	begun := provider.Message{Role: provider.RoleAssistant, Content: []provider.Part{{Text: "It is"}}}
	high := &provider.Reasoning{Effort: "high"}
	required := &provider.Reasoning{Effort: "high", Required: true}
	for name, c := range map[string]struct {
		chat provider.Chat
		want string // of the request; an error where it begins with "!"
	}{
		"nothing asked":             {provider.Chat{Model: "claude-opus-4-6"}, ``},
		"switched off":              {provider.Chat{Model: "claude-opus-4-6", Reasoning: &provider.Reasoning{Effort: "none"}}, ``},
		"adaptive":                  {provider.Chat{Model: "claude-opus-4-6", Reasoning: high}, `"output_config":{"effort":"high"},"thinking":{"type":"adaptive"}`},
		"adaptive by budget":        {provider.Chat{Model: "claude-sonnet-5", Reasoning: &provider.Reasoning{BudgetTokens: 9000}}, `"output_config":{"effort":"medium"},"thinking":{"type":"adaptive","display":"summarized"}`},
		"adaptive, no level":        {provider.Chat{Model: "claude-opus-5", Reasoning: &provider.Reasoning{Summary: "auto"}}, `"thinking":{"type":"adaptive","display":"summarized"}`},
		"xhigh where there is none": {provider.Chat{Model: "claude-opus-4-6", Reasoning: &provider.Reasoning{Effort: "xhigh"}}, `"effort":"high"`},
		"xhigh where there is":      {provider.Chat{Model: "claude-opus-4-7", Reasoning: &provider.Reasoning{Effort: "xhigh"}}, `"effort":"xhigh"`},
		"minimal":                   {provider.Chat{Model: "claude-opus-4-7", Reasoning: &provider.Reasoning{Effort: "minimal"}}, `"effort":"low"`},
		"a budget":                  {provider.Chat{Model: "claude-sonnet-4-20250514", Reasoning: high}, `"thinking":{"type":"enabled","budget_tokens":16384}`},
		"a budget within a bound":   {provider.Chat{Model: "claude-opus-4-5", MaxTokens: 5000, Reasoning: high}, `"thinking":{"type":"enabled","budget_tokens":2500}`},
		"too little room":           {provider.Chat{Model: "claude-opus-4-5", MaxTokens: 1000, Reasoning: high}, ``},
		"too little, required":      {provider.Chat{Model: "claude-opus-4-5", MaxTokens: 1000, Reasoning: required}, "!reasoning: this provider can't think with max_tokens below 1025"},
		"a temperature":             {provider.Chat{Model: "claude-opus-4-6", Temperature: new(0.5), Reasoning: high}, ``},
		"a temperature, required":   {provider.Chat{Model: "claude-opus-4-6", Temperature: new(0.5), Reasoning: required}, "!reasoning: this provider can't think with a temperature"},
		"a demanded call":           {provider.Chat{Model: "claude-opus-4-6", Tools: tools, ToolChoice: &provider.ToolChoice{Mode: "required"}, Reasoning: high}, ``},
		"calls of another vendor":   {provider.Chat{Model: "claude-opus-4-5", Messages: called(`{"google":{}}`), Reasoning: high}, ``},
		"calls and a question":      {provider.Chat{Model: "claude-opus-4-5", Messages: append(called(`{"google":{}}`), asked), Reasoning: high}, ``},
		"calls before an answer":    {provider.Chat{Model: "claude-opus-4-5", Messages: append(called(`{"google":{}}`), begun, asked), Reasoning: high}, `"thinking":{"type":"enabled"`},
		"a beginning":               {provider.Chat{Model: "claude-opus-4-5", Messages: []provider.Message{asked, begun}, Reasoning: high}, ``},
		"a beginning, required":     {provider.Chat{Model: "claude-3-7-sonnet-latest", Messages: []provider.Message{asked, begun}, Reasoning: required}, "!reasoning: this provider can't think with the beginning of an answer"},
		"calls of its own":          {provider.Chat{Model: "claude-opus-4-5", Messages: called(`{"anthropic":{"lead":[{"type":"thinking"}]}}`), Reasoning: high}, `"thinking":{"type":"enabled"`},
		"adaptive takes all calls":  {provider.Chat{Model: "claude-opus-4-6", Messages: called(`{}`), Reasoning: high}, `"thinking":{"type":"adaptive"}`},
	} {
		t.Run(name, func(t *testing.T) {
			if c.chat.Messages == nil {
				c.chat.Messages = []provider.Message{asked}
			}
			terms := Terms(c.chat.Model)
			fitted, err := terms.Fit(&c.chat)
			var r *request
			if err == nil {
				r, err = encode(fitted.Chat, false, 0)
			}
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

// Room for thinking is never more than the model's output limit, and the budget leaves room for the answer.
func TestThinkingWithinTheLimit(t *testing.T) {
	for name, c := range map[string]struct {
		chat           provider.Chat
		limit          int
		output, budget int
	}{
		"room for both":      {provider.Chat{Model: "claude-sonnet-4-5", Reasoning: &provider.Reasoning{Effort: "high"}}, 0, 20480, 16384},
		"an old Opus":        {provider.Chat{Model: "anthropic.claude-opus-4-1-20250805-v1:0", Reasoning: &provider.Reasoning{Effort: "max"}}, 0, 32000, 27904},
		"the first Opus 4":   {provider.Chat{Model: "Claude-Opus-4", Reasoning: &provider.Reasoning{BudgetTokens: 40000}}, 0, 32000, 27904},
		"a newer Opus":       {provider.Chat{Model: "claude-opus-4-5", Reasoning: &provider.Reasoning{Effort: "max"}}, 0, 64000, 59904},
		"Sonnet 4":           {provider.Chat{Model: "claude-sonnet-4", Reasoning: &provider.Reasoning{Effort: "max"}}, 0, 64000, 59904},
		"a configured limit": {provider.Chat{Model: "claude-sonnet-4-5", Reasoning: &provider.Reasoning{Effort: "high"}}, 16000, 16000, 11904},
		"a larger one":       {provider.Chat{Model: "claude-sonnet-4-5", Reasoning: &provider.Reasoning{Effort: "max"}}, 128000, 128000, 65536},
		"a small one":        {provider.Chat{Model: "claude-sonnet-4-5", Reasoning: &provider.Reasoning{Effort: "high"}}, 4000, 4000, 1024},
		"the caller's":       {provider.Chat{Model: "claude-sonnet-4-5", MaxTokens: 5000, Reasoning: &provider.Reasoning{Effort: "high"}}, 4000, 5000, 2500},
		"a small one's":      {provider.Chat{Model: "claude-sonnet-4-5", MaxTokens: 1025, Reasoning: &provider.Reasoning{Effort: "high"}}, 4000, 1025, 1024},
		"the caller's two":   {provider.Chat{Model: "claude-sonnet-4-5", MaxTokens: 5000, Reasoning: &provider.Reasoning{BudgetTokens: 9000}}, 4000, 5000, 4999},
	} {
		plan := PlanThinking(&c.chat, cmp.Or(c.chat.MaxTokens, c.limit, defaultMaxTokens), c.limit)
		if plan.MaxTokens != c.output || plan.Config.Budget != c.budget {
			t.Errorf("%s: %d tokens of which %d to think, want %d and %d", name, plan.MaxTokens, plan.Config.Budget, c.output, c.budget)
		}
	}
}

func TestVersion(t *testing.T) {
	for model, want := range map[string]int{
		"claude-opus-4-6": 406, "claude-sonnet-4-20250514": 400, "claude-opus-4-5-20251101": 405, "claude-3-7-sonnet-20250219": 307,
		"claude-3-opus-20240229": 300, "claude-3-5-haiku-latest": 305, "anthropic.claude-opus-4-6-v1:0": 406, "claude-opus-5": 500,
		"us.anthropic.claude-sonnet-4-5-20250929-v1:0": 405, "claude-sonnet-4-5@20250929": 405, "claude-sonnet-4.5": 405, "claude-3.5-sonnet": 305,
		"arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-1-20250805-v1:0": 401, "anthropic.claude-sonnet-5": 500,
		"anthropic.claude-v2:1": 200, "claude-2.1": 201, "anthropic.claude-instant-v1": 100, "Claude-Haiku-4-5": 405, "claude-fable-5-1": 501,
		"claude-opus-latest": newest, "claude-mythos-preview": newest, "gpt-5": 0, "": 0, "kimi-k2": 0,
	} {
		if got := Version(model); got != want {
			t.Errorf("%s: %d, want %d", model, got, want)
		}
	}
}
