package adapter

import (
	"encoding/json"
	"io"
	"net/http"
	"testing"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// wire records what is sent, and answers with an error.
type wire struct{ sent string }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	w.sent = string(body)
	return &http.Response{StatusCode: http.StatusTeapot, Body: http.NoBody, Request: r}, err
}

// hinted returns a chat with one hint.
func hinted(hint provider.Hint) *provider.Chat {
	chat := &provider.Chat{
		Messages: []provider.Message{
			{Role: provider.RoleUser, Content: []provider.Part{{Text: "hi"}}},
			{Role: provider.RoleAssistant, ToolCalls: []provider.ToolCall{{ID: "c", Name: "f", Arguments: "{}"}}},
			{Role: provider.RoleTool, ToolCallID: "c", Content: []provider.Part{{Text: "a"}}},
		},
		Tools: []provider.Tool{{Name: "f"}},
	}
	switch hint {
	case provider.HintCachePoint:
		chat.Messages[0].Content[0].Cache = provider.CacheShort
	case provider.HintCacheKey:
		chat.CacheKey = "key"
	case provider.HintEndUser:
		chat.EndUser = "pseudonym"
	case provider.HintSeed:
		chat.Seed = new(int64(1 << 40))
	case provider.HintPenalties:
		chat.PresencePenalty, chat.FrequencyPenalty = new(0.5), new(0.5)
	case provider.HintVerbosity:
		chat.Verbosity = "low"
	case provider.HintOneCall:
		chat.ParallelTools = new(false)
	case provider.HintSignedThinking:
		chat.Messages[1].ToolCalls[0].Extra = json.RawMessage(`{"anthropic":{"lead":[{"type":"thinking","thinking":"a","signature":"s"}]}}`)
	case provider.HintThoughtSignature:
		chat.Messages[1].ToolCalls[0].Extra = json.RawMessage(`{"google":{"thought_signature":"s"}}`)
	case provider.HintReasoning:
		chat.Messages[1].Reasoning = "so"
	case provider.HintTemperature, provider.HintTopP, provider.HintTopK, provider.HintStop, provider.HintEffort,
		provider.HintStrict, provider.HintSettings:
		// Terms say which of these a model accepts; see the tests of package provider.
	}
	return chat
}

// A provider is sent the hints that its dialect says it takes for a model, and serves without the others.
func TestHintsAreSent(t *testing.T) {
	const (
		usual = provider.HintSeed | provider.HintPenalties | provider.HintOneCall
		whose = provider.HintEndUser | provider.HintCacheKey
		// open and claude are the states of calls that servers of OpenAI's dialect and Claude take.
		open   = provider.HintThoughtSignature
		claude = provider.HintSignedThinking
		all    = provider.HintCachePoint | provider.HintVerbosity | usual | whose | open | claude | provider.HintReasoning
	)
	for _, c := range []struct {
		dialect, baseURL, model string
		want                    provider.Hint
	}{
		{"openai", "https://vendor.example", "llama-3", usual | open},
		{"openai", "https://vendor.example", "qwen3-32b", usual&^provider.HintPenalties | open},
		{"openai", "https://api.deepseek.com", "deepseek-chat", usual | open | provider.HintReasoning},
		{"openai", "https://openrouter.ai/api/v1", "llama-3", usual | open | provider.HintReasoning},
		{"openai", "https://api.mistral.ai", "mistral-large", usual &^ provider.HintSeed},
		{"openai", "https://mine.openai.azure.com/openai/v1", "gpt-4o", usual},
		{"openai", "https://api.openai.com", "gpt-4o", usual | whose},
		{"openai", "https://api.openai.com", "gpt-4o-search-preview", usual&^provider.HintPenalties | whose},
		{"openai", "https://api.openai.com", "ft:o4-mini-2025-04-16:org::id", usual&^provider.HintPenalties&^provider.HintOneCall | whose},
		{"openai", "https://api.openai.com", "o4-mini", usual&^provider.HintPenalties&^provider.HintOneCall | whose},
		{"openai", "https://openrouter.ai/api/v1", "openai/o3-mini", usual&^provider.HintPenalties&^provider.HintOneCall | open | provider.HintReasoning},
		{"openai", "https://api.openai.com", "gpt-5.1", usual&^provider.HintPenalties | whose | provider.HintVerbosity},
		{"anthropic", "https://api.anthropic.com", "claude-opus-4-6", provider.HintCachePoint | provider.HintEndUser | provider.HintOneCall | claude},
		{"gemini", "https://generativelanguage.googleapis.com", "gemini-2.0-flash", provider.HintSeed | provider.HintPenalties | open},
		{"gemini", "https://generativelanguage.googleapis.com", "gemini-2.5-flash", provider.HintSeed | open},
		{"gemini", "https://generativelanguage.googleapis.com", "gemini-flash-latest", provider.HintSeed | open},
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "eu.anthropic.claude-opus-4-7", provider.HintCachePoint | claude},
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "anthropic.claude-3-haiku-20240307-v1:0", claude},
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "amazon.nova-pro-v1:0", provider.HintCachePoint},
		{"bedrock", "https://bedrock-runtime.eu-west-1.amazonaws.com", "openai.gpt-oss-120b-1:0", 0},
	} {
		of, _ := Find(c.dialect)
		over := new(wire)
		settings := provider.Settings{BaseURL: c.baseURL, Transport: over}
		if got := of.HintsOf(settings)(c.model); got != c.want {
			t.Errorf("%s, %s: takes %b, want %b", c.baseURL, c.model, got, c.want)
		}
		p, err := of.New(settings)
		if err != nil {
			t.Fatal(err)
		}
		send := func(chat *provider.Chat) string {
			chat.Model, over.sent = c.model, ""
			_, _ = p.(provider.ChatProvider).Chat(t.Context(), provider.Credential{}, chat)
			return over.sent
		}
		plain := send(hinted(0))
		for hint := provider.Hint(1); hint <= all; hint <<= 1 {
			if all&hint == 0 {
				continue
			}
			if sent := send(hinted(hint)); sent == "" || (sent != plain) != (c.want&hint != 0) {
				t.Errorf("%s, %s, hint %b: sent %q", c.baseURL, c.model, hint, sent)
			}
		}
	}
}
