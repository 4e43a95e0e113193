package anthropic

import (
	"encoding/json"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Bodies of Messages are relayed unless Claude refuses their schemas, their documents or the order within a turn.
func TestCanRelay(t *testing.T) {
	const model = "claude-sonnet-4-5"
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	const bounded = `{"type":"object","properties":{"a":{"type":"string","maxLength":3}},"required":["a"],"additionalProperties":false}`
	answer := func(schema string) json.RawMessage {
		return json.RawMessage(`{"type":"json_schema","json_schema":{"name":"answer","strict":true,"schema":` + schema + `}}`)
	}
	results := []provider.Message{{Role: provider.RoleTool}}
	files := []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{File: &provider.File{}}}}}
	for name, c := range map[string]struct {
		chat provider.Chat
		body string // its messages
		want bool
	}{
		"nothing":                     {provider.Chat{Model: model}, ``, true},
		"a function":                  {provider.Chat{Model: model, Tools: []provider.Tool{{Parameters: json.RawMessage(`{ "type": "object" }`)}}}, ``, true},
		"a function without a type":   {provider.Chat{Model: model, Tools: []provider.Tool{{Parameters: json.RawMessage(`{}`)}}}, ``, false},
		"a union of functions":        {provider.Chat{Model: model, Tools: []provider.Tool{{Parameters: json.RawMessage(`{"anyOf":[]}`)}}}, ``, false},
		"a bounded function":          {provider.Chat{Model: model, Tools: []provider.Tool{{Parameters: json.RawMessage(bounded)}}}, ``, true},
		"a strict, bounded function":  {provider.Chat{Model: model, Tools: []provider.Tool{{Strict: true, Parameters: json.RawMessage(bounded)}}}, ``, false},
		"an answer":                   {provider.Chat{Model: model, ResponseFormat: answer(closed)}, ``, true},
		"a bounded answer":            {provider.Chat{Model: model, ResponseFormat: answer(bounded)}, ``, false},
		"a model without schemas":     {provider.Chat{Model: "claude-opus-4", ResponseFormat: answer(closed)}, ``, false},
		"results first":               {provider.Chat{Model: model, Messages: results}, `[{"role":"user","content":[{"type":"tool_result"},{"type":"tool_result"},{"type":"text","text":"u"}]}]`, true},
		"a text first":                {provider.Chat{Model: model, Messages: results}, `[{"role":"user","content":[{"type":"text","text":"u"},{"type":"tool_result"}]}]`, false},
		"a PDF":                       {provider.Chat{Model: model, Messages: files}, `[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"application/pdf"}}]}]`, true},
		"a text by its bytes":         {provider.Chat{Model: model, Messages: files}, `[{"role":"user","content":[{"type":"document","source":{"type":"base64","media_type":"text/csv"}}]}]`, false},
		"a text as a text":            {provider.Chat{Model: model, Messages: files}, `[{"role":"user","content":[{"type":"document","source":{"type":"text","media_type":"text/plain"}}]}]`, true},
		"a text by bytes in a result": {provider.Chat{Model: model, Messages: results}, `[{"role":"user","content":[{"type":"tool_result","content":[{"type":"document","source":{"type":"base64","media_type":"text/csv"}}]}]}]`, false},
	} {
		if c.body == "" {
			c.body = `[]`
		}
		c.chat.Native = &provider.Native{Dialect: DialectName, Body: json.RawMessage(`{"messages":` + c.body + `}`)}
		if got := CanRelay(&c.chat); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
