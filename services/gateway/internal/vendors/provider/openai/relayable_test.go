package openai_test

import (
	"encoding/json"
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
