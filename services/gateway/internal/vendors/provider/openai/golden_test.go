package openai_test

import (
	"encoding/json"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// answers are the parsed answers of testdata/answers.
func answers() map[string]*provider.Answer {
	const openAI = "gpt-4o-mini-2024-07-18"
	paris := provider.ToolCall{Index: 0, ID: "call_DdmO9pD3xa9XTPNJ32zg2hcA", Name: "get_weather", Arguments: `{"city": "Paris"}`}
	clock := provider.ToolCall{Index: 1, ID: "call_ABxCbKlOKr6zMPbPLvMM7bRT", Name: "get_time", Arguments: `{}`}
	compatible := []provider.ToolCall{
		{Index: 0, ID: "D681PevKs", Name: "get_weather", Arguments: `{"city": "Paris"}`},
		{Index: 1, ID: "9fK2mPq4s", Name: "get_time", Arguments: `{}`},
	}
	gemini := []provider.ToolCall{
		{Index: 0, ID: "function-call-1", Name: "get_weather", Arguments: `{"city":"Paris"}`},
		{Index: 1, ID: "function-call-2", Name: "get_weather", Arguments: `{"city":"Rome"}`},
	}
	gemini[0].Extra = json.RawMessage(`{"google":{"thought_signature":"c2ln"}}`)
	const stop, calls = provider.FinishStop, provider.FinishToolCalls
	return map[string]*provider.Answer{
		"text": {
			Text: "It is sunny in Zürich.", FinishReason: stop, Model: openAI,
			Usage: &provider.Usage{Input: 476, CacheRead: 1024, Output: 26, Reasoning: 64},
		},
		"parallel_tools": {
			ToolCalls: []provider.ToolCall{paris, clock}, FinishReason: calls, Model: openAI,
			Usage: &provider.Usage{Input: 82, Output: 48},
		},
		"interleaved_tools": {
			Text: "I look.", ToolCalls: []provider.ToolCall{paris, clock}, FinishReason: calls, Model: openAI,
			Usage: &provider.Usage{Input: 82, Output: 48},
		},
		"length":         {Text: "It is", FinishReason: provider.FinishLength, Model: openAI, Usage: &provider.Usage{Input: 20, Output: 2}},
		"refusal":        {Text: "I can't help with that.", FinishReason: provider.FinishContentFilter, Model: openAI, Usage: &provider.Usage{Input: 20, Output: 8}},
		"azure_filtered": {Text: "It", FinishReason: provider.FinishContentFilter, Model: openAI, Usage: &provider.Usage{Input: 20, Output: 1}},

		"usage_absent":       {Text: "Hi.", FinishReason: stop, Model: "qwen3"},
		"usage_zero":         {Text: "Hi.", FinishReason: stop, Model: "qwen3", Usage: &provider.Usage{}},
		"usage_beyond_total": {Text: "Hi.", FinishReason: stop, Model: "qwen3", Usage: &provider.Usage{CacheRead: 10, Reasoning: 2}},
		"usage_cache_write":  {Text: "Hi.", FinishReason: stop, Model: "m", Usage: &provider.Usage{Input: 50, CacheRead: 20, CacheWrite: 30, Output: 2}},
		"usage_running":      {Text: "One two.", FinishReason: stop, Model: "m", Usage: &provider.Usage{Input: 9, Output: 3}},

		"tools_index_repeated": {ToolCalls: gemini, FinishReason: calls, Model: "gemini-2.5-flash"},
		"tools_without_index":  {ToolCalls: compatible, FinishReason: calls, Model: "mistral-large"},
		"tools_id_repeated":    {ToolCalls: compatible, FinishReason: calls, Model: "m"},
		"tools_object": {ToolCalls: []provider.ToolCall{
			{Index: 0, ID: "call_a", Name: "get_weather", Arguments: `{"city":"Paris"}`}, {Index: 1, ID: "call_b", Name: "get_time", Arguments: "{}"},
		}, FinishReason: calls, Model: "qwen3"},
		"content_parts": {Text: "It is 4.", Reasoning: "Hm.", FinishReason: stop, Model: "magistral-medium"},
		"safety":        {Text: "It", FinishReason: provider.FinishContentFilter, Model: "gemini-2.5-flash"},

		"reasoning_deepseek": {
			Text: "Four.", Reasoning: "Two and \"two\"\nmake four.", FinishReason: stop, Model: "deepseek-reasoner",
			Usage: &provider.Usage{Input: 36, CacheRead: 64, Output: 10, Reasoning: 20},
		},
		"reasoning_vllm": {
			Text: "Four.", Reasoning: "Hm. Two…", FinishReason: stop, Model: "qwen3",
			Usage: &provider.Usage{Input: 12, Output: 4, Reasoning: 5},
		},
		"annotations": {
			Text: "It is so.", FinishReason: stop, Model: "gpt-4o-search", Usage: &provider.Usage{Input: 12, Output: 4},
			Citations: []provider.Citation{
				{URL: "https://a.example/1", Title: "A", End: 9},
				{URL: "https://b.example", Title: "B", Quote: "so it is", Start: 3, End: 5},
				{Title: "report.pdf", End: 9},
			},
			Images: []string{"data:image/png;base64,aQ=="},
		},
		"perplexity": {
			Text: "It is so.", FinishReason: stop, Model: "sonar", Usage: &provider.Usage{Input: 12, Output: 4},
			Citations: []provider.Citation{{URL: "https://a.example/1", Title: "A"}, {URL: "https://b.example", Title: "B"}},
		},
		"forced_call": {
			FinishReason: provider.FinishToolCalls, Model: "gpt-4o", Usage: &provider.Usage{Input: 12, Output: 4},
			ToolCalls: []provider.ToolCall{{ID: "call_1", Name: "get_time", Arguments: "{}"}},
		},
		"usage_groq":     {Text: "Hi there.", FinishReason: stop, Model: "llama-3.1-8b-instant", Usage: &provider.Usage{Input: 40, Output: 4}},
		"usage_moonshot": {Text: "Hi.", FinishReason: stop, Model: "kimi-k2", Usage: &provider.Usage{Input: 5, CacheRead: 3, Output: 2}},
		"usage_xai":      {Text: "Hi.", FinishReason: stop, Model: "grok-4", Usage: &provider.Usage{Input: 26, CacheRead: 6, Output: 9, Reasoning: 94}},
		"usage_google":   {Text: "Hi.", FinishReason: stop, Model: "gemini-2.5-flash", Usage: &provider.Usage{Input: 10, Output: 5, Reasoning: 60}},
		"usage_kinds": {Text: "Hi.", FinishReason: stop, Model: "gpt-4o-audio", Usage: &provider.Usage{
			Input: 40, CacheRead: 10, AudioInput: 20, ImageInput: 30, Output: 20, Reasoning: 5, AudioOutput: 25,
		}},
	}
}
