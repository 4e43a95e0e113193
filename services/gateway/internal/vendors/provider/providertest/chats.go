package providertest

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Chats returns requests that together use every field of provider.Chat.
func Chats() map[string]*provider.Chat {
	text := func(role provider.Role, text string) provider.Message {
		return provider.Message{Role: role, Content: []provider.Part{{Text: text}}}
	}
	hello := text(provider.RoleUser, "Hello <b>world</b> & \"all\"")
	chats := map[string]*provider.Chat{
		"text": {Messages: []provider.Message{hello}},
		"settings": {
			Messages:  []provider.Message{hello},
			MaxTokens: 256, Temperature: new(0.0), TopP: new(0.9), Stop: []string{"END", "\n\n"}, Seed: new(int64(7)),
		},
		"hints": {
			Messages: []provider.Message{hello}, Tools: []provider.Tool{{Name: "get_time"}}, ParallelTools: new(false),
			Seed: new(int64(1<<32 - 2)), PresencePenalty: new(0.5), FrequencyPenalty: new(-0.5), Verbosity: "low", EndUser: "pseudonym", CacheKey: "key",
		},
		"system": {Messages: []provider.Message{
			text(provider.RoleSystem, "Respond in de."), text(provider.RoleSystem, "Be brief."), hello,
			text(provider.RoleAssistant, "Hallo."), text(provider.RoleUser, "And now?"), text(provider.RoleUser, "Well?"),
		}},
		"late_system": {Messages: []provider.Message{
			text(provider.RoleSystem, "Be brief."), hello, text(provider.RoleAssistant, "Hallo."),
			text(provider.RoleSystem, "From now on in fr."), text(provider.RoleUser, "And now?"),
		}},
		"reasoning": {Tools: tools(), Messages: []provider.Message{
			hello,
			{Role: provider.RoleAssistant, Reasoning: "I should look.", ToolCalls: []provider.ToolCall{{
				ID: "call_1", Name: "get_time", Arguments: "{}",
				Extra: json.RawMessage(`{"openai":{"provider":"openai","member":"reasoning","text":"I should look.","details":[{"type":"reasoning.text","text":"I should look."}]}}`),
			}}},
			{Role: provider.RoleTool, ToolCallID: "call_1", Content: []provider.Part{{Text: "10:36"}, {Text: "UTC"}}},
			{Role: provider.RoleAssistant, Reasoning: "Now I know.", Content: []provider.Part{{Text: "10:36"}}},
			text(provider.RoleUser, "And now?"),
		}},
		"images": {Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{
			{Text: "What differs?"},
			{ImageURL: "https://images.example/a.png?w=1&h=2", Detail: "low"},
			{ImageURL: "data:image/png;base64,iVBORw0KGgo="},
		}}}},
		"files": {Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{
			{Text: "What does it say?"},
			{File: &provider.File{Name: "a.pdf", URL: "data:application/pdf;base64,JVBERi0="}},
			{File: &provider.File{URL: "data:application/pdf;base64,JVBERi0="}},
		}}}},
		"text_parts": {Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "One. "}, {Text: "Two."}}}}},
		"silent_turn": {Messages: []provider.Message{
			hello, {Role: provider.RoleAssistant}, text(provider.RoleUser, "Still there?"),
		}},
		"json_object": {Messages: []provider.Message{hello}, ResponseFormat: json.RawMessage(`{"type":"json_object"}`)},
		"json_schema": {
			Messages: []provider.Message{text(provider.RoleSystem, "Be exact."), hello},
			ResponseFormat: json.RawMessage(`{"type":"json_schema","json_schema":{"name":"city","strict":true,"schema":` +
				`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}}}`),
		},
		"tool_results": {Tools: tools(), Messages: append(toolTurns(),
			text(provider.RoleUser, "Which is warmer?"))},
	}
	for name, choice := range map[string]*provider.ToolChoice{
		"tools": nil, "choice_auto": {Mode: "auto"}, "choice_none": {Mode: "none"},
		"choice_required": {Mode: "required"}, "choice_tool": {Mode: "tool", Name: "get_weather"},
	} {
		chats[name] = &provider.Chat{Messages: []provider.Message{hello}, Tools: tools(), ToolChoice: choice}
	}
	for _, chat := range chats {
		chat.Model = "model"
	}
	return chats
}

func tools() []provider.Tool {
	return []provider.Tool{
		{
			Name: "get_weather", Description: "The weather of a city.", Strict: true,
			Parameters: json.RawMessage(`{"type":"object","properties":{"city":{"type":"string"}},"required":["city"],"additionalProperties":false}`),
		},
		{Name: "get_time"},
	}
}

// toolTurns is a conversation with two parallel calls, one of them without arguments.
func toolTurns() []provider.Message {
	return []provider.Message{
		{Role: provider.RoleUser, Content: []provider.Part{{Text: "Weather in Paris, and the time?"}}},
		{
			Role:    provider.RoleAssistant,
			Content: []provider.Part{{Text: "I look."}},
			ToolCalls: []provider.ToolCall{
				{ID: "call_1", Name: "get_weather", Arguments: `{"city": "Paris"}`, Extra: json.RawMessage(`{"vendor":{"signature":"c2ln"}}`)},
				{ID: "call_2", Name: "get_time"},
			},
		},
		{Role: provider.RoleTool, ToolCallID: "call_1", Content: []provider.Part{{Text: `{"celsius":21}`}}},
		{Role: provider.RoleTool, ToolCallID: "call_2", Name: "get_time"},
		{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "call_3", Name: "get_time", Arguments: "{}"}}},
		{Role: provider.RoleTool, ToolCallID: "call_3", Content: []provider.Part{{Text: "10:36"}}},
	}
}
