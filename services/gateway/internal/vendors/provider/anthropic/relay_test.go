package anthropic

import (
	"encoding/json"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Thinking that the gateway has signed is never sent, and thinking is switched off where the vendor would refuse it.
func TestNativeBodiesWithThinkingOfOthers(t *testing.T) {
	called := []provider.Message{
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f"}}}, {Role: provider.RoleTool, ToolCallID: "c"},
	}
	for name, c := range map[string]struct {
		chat       provider.Chat
		body, want string
	}{
		"beside a text": {
			provider.Chat{Model: "claude-opus-4-6"},
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"switchyard"}, {"type":"text","text":"y"}]},{"role":"user", "content":"z"}]}`,
			`{"model":"claude-opus-4-6","stream":false,"messages":[{"content":[{"type":"text","text":"y"}],"role":"assistant"},{"role":"user", "content":"z"}]}`,
		},
		"alone": {
			provider.Chat{Model: "m"},
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"x","signature":"switchyard"}]},{"role":"user","content":"z"}]}`,
			`{"model":"m","stream":false,"messages":[{"role":"user","content":"z"}]}`,
		},
		"its own": {
			provider.Chat{Model: "m"},
			`{"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"\"switchyard\"","signature":"s"}]}]}`,
			`{"model":"m","stream":false,"messages":[{"role":"assistant","content":[{"type":"thinking","thinking":"\"switchyard\"","signature":"s"}]}]}`,
		},
		"switched off": {
			provider.Chat{Model: "claude-opus-4-5", Messages: called},
			`{"thinking":{"type":"enabled","budget_tokens":1024},"messages":[]}`,
			`{"model":"claude-opus-4-5","stream":false,"thinking":{"type":"disabled"},"messages":[]}`,
		},
		"switched off before a question": {
			provider.Chat{Model: "claude-opus-4-5", Messages: append(called[:2:2], provider.Message{Role: provider.RoleUser})},
			`{"thinking":{"type":"enabled","budget_tokens":1024},"messages":[]}`,
			`{"model":"claude-opus-4-5","stream":false,"thinking":{"type":"disabled"},"messages":[]}`,
		},
		"adaptive": {
			provider.Chat{Model: "claude-opus-4-6", Messages: called},
			`{"thinking":{"type":"adaptive"},"messages":[]}`,
			`{"model":"claude-opus-4-6","stream":false,"thinking":{"type":"adaptive"},"messages":[]}`,
		},
	} {
		c.chat.Native = &provider.Native{Dialect: DialectName, Body: []byte(c.body)}
		p, err := New(provider.Settings{BaseURL: "https://api.anthropic.com"})
		if err != nil {
			t.Fatal(err)
		}
		body, err := p.body(&c.chat, false)
		got, _ := body.(json.RawMessage)
		if err != nil || string(got) != c.want {
			t.Errorf("%s: %s, %v, want %s", name, got, err, c.want)
		}
	}
}
