package openai_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/openai"
)

// OpenAI's own bodies are relayed unless its rules for schemas and files, or Mistral's for turns, refuse them.
func TestCanRelay(t *testing.T) {
	const closed = `{"type":"object","properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}`
	const spaced = `{ "type": "object", "properties": {"a": {"type": "string"}}, "required": ["a"], "additionalProperties": false }`
	function := func(parameters string, strict bool) provider.Chat {
		return provider.Chat{Tools: []provider.Tool{{Name: "f", Parameters: json.RawMessage(parameters), Strict: strict}}}
	}
	answer := func(schema string) provider.Chat {
		return provider.Chat{ResponseFormat: json.RawMessage(`{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`)}
	}
	file := func(kind string) provider.Chat {
		return provider.Chat{Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{File: &provider.File{URL: "data:" + kind + ";base64,aGk="}}}}}}
	}
	turns := func(roles ...provider.Role) provider.Chat {
		var chat provider.Chat
		for _, role := range roles {
			chat.Messages = append(chat.Messages, provider.Message{Role: role})
		}
		return chat
	}
	user, assistant, tool, system := provider.RoleUser, provider.RoleAssistant, provider.RoleTool, provider.RoleSystem
	hosts := map[string]provider.Settings{
		"openai": {BaseURL: "https://api.openai.com"}, "mistral": {BaseURL: "https://api.mistral.ai"}, "other": {BaseURL: "http://vllm.example"},
	}
	all := []string{"openai", "mistral", "other"}
	for name, c := range map[string]struct {
		chat    provider.Chat
		form    string
		relayed []string
	}{
		"nothing":                      {provider.Chat{ResponseFormat: json.RawMessage(`{"type":"json_object"}`)}, "", all},
		"a schema":                     {function(closed, true), "", all},
		"a schema with spaces":         {function(spaced, true), "", all},
		"an optional property":         {function(`{"type":"object","properties":{"a":{}},"additionalProperties":false}`, true), "", []string{"mistral", "other"}},
		"a hint with a default":        {function(`{"type":"object","properties":{"a":{"default":1}}}`, false), "", all},
		"no properties":                {function(`{"type":"object"}`, false), "", []string{"mistral", "other"}},
		"an answer":                    {answer(spaced), "", all},
		"an answer that is a list":     {answer(`{"type":"array","items":{"type":"string"}}`), "", []string{"mistral", "other"}},
		"an answer of Responses":       {answer(`{"type":"array","items":{"type":"string"}}`), openai.ResponsesName, []string{"mistral", "other"}},
		"a compaction":                 {answer(`{"type":"array"}`), openai.CompactionName, all},
		"a PDF":                        {file("application/pdf"), "", all},
		"a text":                       {file("text/csv"), "", nil},
		"a text of Responses":          {file("text/csv"), openai.ResponsesName, all},
		"another file":                 {file("application/zip"), "", []string{"mistral", "other"}},
		"the user behind a result":     {turns(user, assistant, tool, user), "", []string{"openai", "other"}},
		"an instruction behind it":     {turns(user, assistant, tool, system), "", []string{"openai", "other"}},
		"an instruction in between":    {turns(user, assistant, system), "", []string{"openai", "other"}},
		"the assistant behind results": {turns(system, user, assistant, tool, tool, assistant, user), "", all},
	} {
		for host, settings := range hosts {
			p, err := openai.New(settings)
			if err != nil {
				t.Fatal(err)
			}
			chat := c.chat
			chat.Native = &provider.Native{Dialect: c.form}
			if c.form == "" {
				chat.Native.Dialect = openai.DialectName
			}
			want := false
			for _, relayed := range c.relayed {
				want = want || relayed == host
			}
			if got := p.CanRelay(&chat); got != want {
				t.Errorf("%s at %s: %v, want %v", name, host, got, want)
			}
		}
	}
}

// BenchmarkCanRelay measures what a relayed call costs in addition: the check of a body with 40 turns and 8 functions.
func BenchmarkCanRelay(b *testing.B) {
	p, err := openai.New(provider.Settings{BaseURL: "https://api.openai.com"})
	if err != nil {
		b.Fatal(err)
	}
	chat := provider.Chat{Model: "gpt-4o", Native: &provider.Native{Dialect: openai.DialectName}}
	for range 20 {
		for _, role := range []provider.Role{provider.RoleUser, provider.RoleAssistant} {
			chat.Messages = append(chat.Messages, provider.Message{Role: role, Content: []provider.Part{{Text: "some words"}}})
		}
	}
	properties := make(map[string]any)
	for i := range 10 {
		properties[fmt.Sprint("property_", i)] = map[string]any{"type": "string", "description": "what the property means"}
	}
	parameters, err := json.Marshal(map[string]any{"type": "object", "properties": properties})
	if err != nil {
		b.Fatal(err)
	}
	for i := range 8 {
		chat.Tools = append(chat.Tools, provider.Tool{Name: fmt.Sprint("f", i), Parameters: parameters})
	}
	for _, tools := range []int{0, len(chat.Tools)} {
		b.Run(fmt.Sprint(tools, " functions"), func(b *testing.B) {
			body, terms := chat, openai.Dialect().Terms(chat.Model)
			body.Tools = chat.Tools[:tools]
			b.ReportAllocs()
			for b.Loop() {
				if fitted, err := terms.FitRelayed(&body); err != nil || fitted.Rewritten || !p.CanRelay(&body) {
					b.Fatalf("%v: it is not relayed", err)
				}
			}
		})
	}
}
