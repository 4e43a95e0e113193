package openai_test

import (
	"strings"
	"testing"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Servers with Mistral's validator get the assistant's turn between results and the user's, and instructions only where
// the validator accepts them. Other servers get the messages as they are.
func TestOrderForMistral(t *testing.T) {
	turns := map[byte]provider.Message{
		's': {Role: provider.RoleSystem, Content: []provider.Part{{Text: "s"}}},
		'u': {Role: provider.RoleUser, Content: []provider.Part{{Text: "u"}}},
		'i': {Role: provider.RoleUser, Content: []provider.Part{{ImageURL: "data:image/png;base64,iVBORw0KGgo="}}},
		'a': {Role: provider.RoleAssistant, Content: []provider.Part{{Text: "a"}}},
		'c': {Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "abcDEF123", Name: "f"}}},
		't': {Role: provider.RoleTool, ToolCallID: "abcDEF123", Content: []provider.Part{{Text: "t"}}},
	}
	names := map[string]string{"system": "s", "user": "u", "assistant": "a", "tool": "t"}
	vllm := anyServer
	vllm.ShortToolIDs = true
	for given, want := range map[string]string{
		"su": "su", "ssu": "ssu", "suau": "suau", "us": "us", "uctau": "uatau", "uct": "uat", "uctct": "uatat", "s": "s",
		"uctu": "uatau", "ucttuu": "uattauu", "ucti": "uatau", "ucts": "uatau", "uctsu": "uatauu", "uas": "uau", "uasu": "uauu",
		"uctuctu": "uatauatau",
	} {
		chat := &provider.Chat{Model: "m"}
		for i := range len(given) {
			chat.Messages = append(chat.Messages, turns[given[i]])
		}
		for name, server := range map[string]provider.Settings{"Mistral": mistral, "vLLM": vllm, "another": anyServer} {
			body, _ := sending(t, server, chat, false)
			var got strings.Builder
			for _, m := range gjson.Get(body, "messages").Array() {
				got.WriteString(names[m.Get("role").Str])
				if m.Get("role").Str == "assistant" && m.Get("content").Str == "" && !m.Get("tool_calls").Exists() {
					t.Errorf("%s at %s: an empty answer in %s", given, name, body)
				}
			}
			if name == "another" {
				want := strings.NewReplacer("c", "a", "i", "u").Replace(given)
				if got.String() != want {
					t.Errorf("%s at another server became %s", given, got.String())
				}
			} else if got.String() != want {
				t.Errorf("%s at %s became %s, want %s", given, name, got.String(), want)
			}
		}
	}
}
