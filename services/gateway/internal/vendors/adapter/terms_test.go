package adapter

import (
	"strings"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// A model's name decides what it refuses, in whichever form a host writes the name.
func TestTermsOfModels(t *testing.T) {
	for _, c := range []struct {
		dialect, model string
		sampling       provider.Sampling
		longest        int
		noPrefill      bool
	}{
		{"anthropic", "claude-3-7-sonnet-20250219", provider.SamplingAny, 128, false},
		{"anthropic", "claude-opus-4-20250514", provider.SamplingAny, 128, false},
		{"anthropic", "claude-opus-4-1-20250805", provider.SamplingOne, 128, false},
		{"anthropic", "claude-haiku-4-5", provider.SamplingOne, 128, false},
		{"anthropic", "claude-sonnet-4-6", provider.SamplingOne, 128, true},
		{"anthropic", "claude-opus-4-7", provider.SamplingDefault, 128, true},
		{"anthropic", "claude-sonnet-5", provider.SamplingDefault, 128, true},
		{"anthropic", "claude-fable-5-1", provider.SamplingDefault, 128, true},
		{"anthropic", "claude-opus-latest", provider.SamplingDefault, 128, true},
		{"anthropic", "kimi-k2", provider.SamplingAny, 128, false},
		{"bedrock", "us.anthropic.claude-sonnet-4-5-20250929-v1:0", provider.SamplingOne, 64, false},
		{"bedrock", "arn:aws:bedrock:us-east-1:1:inference-profile/us.anthropic.claude-opus-4-7", provider.SamplingDefault, 64, true},
		{"bedrock", "amazon.nova-pro-v1:0", provider.SamplingAny, 64, false},
		{"vertex", "claude-sonnet-4-5@20250929", provider.SamplingOne, 128, false},
		{"vertex", "gemini-3-flash", provider.SamplingAny, 64, false},
		{"vertex", "meta/llama-4-maverick-17b-128e-instruct-maas", provider.SamplingAny, 64, false},
		{"gemini", "gemini-3-flash", provider.SamplingAny, 64, false},
		{"openai", "gpt-4o", provider.SamplingAny, 64, false},
		{"openai", "o3-mini", provider.SamplingDefault, 64, false},
		{"openai", "gpt-5", provider.SamplingDefault, 64, false},
		{"openai", "gpt-5-chat-latest", provider.SamplingAny, 64, false},
		{"openai", "openai/gpt-5.4-mini", provider.SamplingDefault, 64, false},
		{"openai", "ft:o4-mini-2025-04-16:org::id", provider.SamplingDefault, 64, false},
		{"openai", "ft:gpt-4o-2024-08-06:org::id", provider.SamplingAny, 64, false},
		{"openai", "gpt-4o-search-preview", provider.SamplingDefault, 64, false},
		{"openai", "openai/gpt-4o-mini-search-preview-2025-03-11", provider.SamplingDefault, 64, false},
		{"openai", "gpt-oss-120b", provider.SamplingAny, 64, false},
		{"openai", "deepseek-reasoner", provider.SamplingAny, 64, false},
	} {
		of, _ := Find(c.dialect)
		got := of.TermsOf(c.model)
		if got.Sampling != c.sampling || got.Functions.Longest != c.longest || got.NoPrefill != c.noPrefill {
			t.Errorf("%s %s: %+v", c.dialect, c.model, got)
		}
	}
}

// OpenAI and Azure get strict schemas that they enforce, and function schemas with properties. Other servers get what
// the caller wrote.
func TestSchemasForOpenAI(t *testing.T) {
	const given = `{"type":"object","properties":{"a":{"type":"string","minLength":1}},"required":["a"]}`
	const closed = `{"type":"object","properties":{"a":{"type":"string","description":"{minLength: 1}"}},"required":["a"],"additionalProperties":false}`
	chat := func(schema string) *provider.Chat {
		return &provider.Chat{
			Model: "gpt-5.1", Messages: []provider.Message{{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}}},
			Tools:          []provider.Tool{{Name: "f", Strict: true, Parameters: []byte(schema)}, {Name: "g", Parameters: []byte(`{}`)}},
			ResponseFormat: []byte(`{"type":"json_schema","json_schema":{"name":"n","strict":true,"schema":` + schema + `}}`),
		}
	}
	for base, want := range map[string]struct{ schema, loose string }{
		"https://api.openai.com":                {closed, `{"type":"object","properties":{}}`},
		"https://me.openai.azure.com/openai/v1": {closed, `{"type":"object","properties":{}}`},
		"https://vendor.example":                {given, `{"type":"object"}`},
	} {
		of, _ := Find("openai")
		over := new(wire)
		p, err := of.New(provider.Settings{BaseURL: base, Transport: over})
		if err != nil {
			t.Fatal(err)
		}
		_, _ = p.(provider.ChatProvider).Chat(t.Context(), provider.Credential{}, chat(given))
		if n := strings.Count(over.sent, want.schema); n != 2 || !strings.Contains(over.sent, `"parameters":`+want.loose) {
			t.Errorf("%s: sent %s, want %s twice, and %s", base, over.sent, want.schema, want.loose)
		}
		over.sent = ""
		_, err = p.(provider.ChatProvider).Chat(t.Context(), provider.Credential{}, chat(`{"type":"object","properties":{"a":{}},"additionalProperties":false}`))
		if refused := over.sent == ""; refused != (want.schema == closed) {
			t.Errorf("%s: an optional property: sent %q, %v", base, over.sent, err)
		}
	}
}
