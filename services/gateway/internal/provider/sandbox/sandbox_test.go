package sandbox_test

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/providertest"
	"switchyard.dev/services/gateway/internal/provider/sandbox"
	"switchyard.dev/services/platform/apierr"
)

const citySchema = `{"type":"object","required":["city","days"],
	"properties":{"city":{"type":"string"},"days":{"type":"integer","minimum":1},"unit":{"type":"string"}}}`

func say(texts ...string) *provider.Chat {
	chat := &provider.Chat{Model: "sandbox"}
	for i, text := range texts {
		role := provider.RoleUser
		if i%2 == 1 {
			role = provider.RoleAssistant
		}
		chat.Messages = append(chat.Messages, provider.Message{Role: role, Content: []provider.Part{{Text: text}}})
	}
	return chat
}

func with(chat *provider.Chat, change func(*provider.Chat)) *provider.Chat {
	change(chat)
	return chat
}

func tools(chat *provider.Chat) {
	chat.Tools = []provider.Tool{
		{Name: "get_weather", Parameters: json.RawMessage(citySchema)},
		{Name: "get_time"},
	}
}

func stop(text string) *provider.Answer {
	return &provider.Answer{Text: text, FinishReason: provider.FinishStop}
}

func calling(calls ...provider.ToolCall) *provider.Answer {
	return &provider.Answer{ToolCalls: calls, FinishReason: provider.FinishToolCalls}
}

var (
	weather = provider.ToolCall{ID: "call_0", Name: "get_weather", Arguments: `{"city":"sandbox","days":1}`}
	clock   = provider.ToolCall{ID: "call_0", Name: "get_time", Arguments: `{}`}
)

func cases() map[string]struct {
	chat *provider.Chat
	want *provider.Answer
} {
	second := clock
	second.Index, second.ID = 1, "call_1"
	return map[string]struct {
		chat *provider.Chat
		want *provider.Answer
	}{
		"text":       {say("hello there"), stop("sandbox: hello there")},
		"last text":  {say("one", "sandbox: one", "two  spaces"), stop("sandbox: two  spaces")},
		"no message": {say(), stop("sandbox: ")},
		"max tokens": {
			with(say("grüße"), func(c *provider.Chat) { c.MaxTokens = 3 }),
			&provider.Answer{Text: "sandbox: gr", FinishReason: provider.FinishLength},
		},
		"the limit is not reached": {with(say("abc"), func(c *provider.Chat) { c.MaxTokens = 3 }), stop("sandbox: abc")},
		"stop":                     {with(say("a b c"), func(c *provider.Chat) { c.Stop = []string{"c", " b"} }), stop("sandbox: a")},
		"stop at once":             {with(say("a"), func(c *provider.Chat) { c.Stop = []string{"sandbox"} }), stop("")},
		"a tool that is named":     {with(say("call get_weather"), tools), calling(weather)},
		"two tools that are named": {with(say("get_time and get_weather"), tools), calling(weather, second)},
		"no tool that is named":    {with(say("hello"), tools), stop("sandbox: hello")},
		"a call is required": {with(say("hello"), func(c *provider.Chat) {
			tools(c)
			c.ToolChoice = &provider.ToolChoice{Mode: "required"}
		}), calling(weather)},
		"one tool is required": {with(say("get_weather"), func(c *provider.Chat) {
			tools(c)
			c.ToolChoice = &provider.ToolChoice{Mode: "tool", Name: "get_time"}
		}), calling(clock)},
		"calls are forbidden": {with(say("get_weather"), func(c *provider.Chat) {
			tools(c)
			c.ToolChoice = &provider.ToolChoice{Mode: "none"}
		}), stop("sandbox: get_weather")},
		"a tool's result": {with(say("get_weather"), func(c *provider.Chat) {
			tools(c)
			c.Messages = append(c.Messages,
				provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{weather}},
				provider.Message{Role: provider.RoleTool, ToolCallID: "call_0", Content: []provider.Part{{Text: "sunny"}}})
		}), stop("sandbox: sunny")},
		"another call": {with(say("get_time"), func(c *provider.Chat) {
			tools(c)
			c.Messages = append(c.Messages,
				provider.Message{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{weather}},
				provider.Message{Role: provider.RoleTool, ToolCallID: "call_0"},
				provider.Message{Role: provider.RoleUser, Content: []provider.Part{{Text: "get_time"}}})
		}), calling(second.at(0))},
		"a JSON object": {with(say(`say "hi"`), func(c *provider.Chat) {
			c.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
		}), stop(`{"sandbox":"say \"hi\""}`)},
		"JSON by a schema": {with(say("weather"), func(c *provider.Chat) {
			c.ResponseFormat = json.RawMessage(`{"type":"json_schema","json_schema":{"name":"w","schema":` + citySchema + `}}`)
		}), stop(`{"city":"sandbox","days":1}`)},
	}
}
