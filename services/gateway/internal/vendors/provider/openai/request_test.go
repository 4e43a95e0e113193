package openai

import (
	"bytes"
	"encoding/json"
	"math"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// wanted is a body as encoding/json would write it.
type wanted struct {
	Model               string          `json:"model"`
	Messages            []wantedMessage `json:"messages"`
	Tools               []tool          `json:"tools,omitempty"`
	ToolChoice          any             `json:"tool_choice,omitempty"`
	ResponseFormat      json.RawMessage `json:"response_format,omitempty"`
	MaxTokens           int             `json:"max_tokens,omitempty"`
	MaxCompletionTokens int             `json:"max_completion_tokens,omitempty"`
	Temperature         *float64        `json:"temperature,omitempty"`
	TopP                *float64        `json:"top_p,omitempty"`
	Stop                []string        `json:"stop,omitempty"`
	Seed                *int64          `json:"seed,omitempty"`
	ParallelToolCalls   *bool           `json:"parallel_tool_calls,omitempty"`
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       map[string]bool `json:"stream_options,omitempty"`
}

type wantedMessage struct {
	Role       string     `json:"role"`
	Content    any        `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

func want(p *Provider, chat *provider.Chat, stream bool) wanted {
	w := wanted{
		Model: chat.Model, ResponseFormat: chat.ResponseFormat, Temperature: chat.Temperature, TopP: chat.TopP, Stop: chat.Stop, Seed: chat.Seed, Stream: stream,
	}
	if p.traits.completionTokens {
		w.MaxCompletionTokens = chat.MaxTokens
	} else {
		w.MaxTokens = chat.MaxTokens
	}
	if chat.ToolChoice != nil {
		w.ToolChoice = encodeChoice(chat.ToolChoice)
	}
	if len(chat.Tools) > 0 {
		w.Tools, w.ParallelToolCalls = encodeTools(chat.Tools), chat.ParallelTools
	}
	if stream && p.traits.streamUsage {
		w.StreamOptions = map[string]bool{"include_usage": true}
		if p.traits.obfuscates {
			w.StreamOptions["include_obfuscation"] = false
		}
	}
	for _, m := range chat.Messages {
		message := wantedMessage{Role: string(m.Role), Name: m.Name, ToolCallID: p.toolID(m.ToolCallID), Content: m.Text()}
		if len(m.ToolCalls) > 0 {
			message.ToolCalls = p.encodeCalls(m.ToolCalls)
			if len(m.Content) == 0 {
				message.Content = nil
			}
		}
		for _, c := range m.Content {
			if c.ImageURL != "" {
				message.Content = encodeParts(m.Content)
			}
		}
		w.Messages = append(w.Messages, message)
	}
	return w
}

func drawChat(t *rapid.T) *provider.Chat {
	text := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"", "plain", "a\"b\\c\n\t\x00\x1f\x7f", "<b>&</b>", "Zürich 東京 🚆", "\u2028\u2029\ufffd", "\xff\xfe"}))
	maybe := func(name string) bool { return rapid.Bool().Draw(t, name) }
	chat := &provider.Chat{Model: text.Draw(t, "model"), MaxTokens: rapid.IntRange(0, 1<<20).Draw(t, "max_tokens")}
	for range rapid.IntRange(1, 4).Draw(t, "messages") {
		m := provider.Message{Role: provider.RoleUser, Name: text.Draw(t, "name"), ToolCallID: text.Draw(t, "tool_call_id")}
		for range rapid.IntRange(0, 3).Draw(t, "parts") {
			part := provider.Part{Text: text.Draw(t, "text")}
			if maybe("image") {
				part = provider.Part{ImageURL: "https://images.example/" + text.Draw(t, "url"), Detail: "low"}
			}
			m.Content = append(m.Content, part)
		}
		for range rapid.IntRange(0, 2).Draw(t, "calls") {
			m.ToolCalls = append(m.ToolCalls, provider.ToolCall{ID: text.Draw(t, "id"), Name: text.Draw(t, "call"), Arguments: text.Draw(t, "arguments"), Extra: json.RawMessage(`{"google":{"x":1}}`)})
		}
		chat.Messages = append(chat.Messages, m)
	}
	if maybe("tools") {
		chat.Tools = []provider.Tool{{Name: text.Draw(t, "tool"), Description: text.Draw(t, "description"), Parameters: json.RawMessage(`{"type":"object"}`), Strict: maybe("strict")}}
		chat.ToolChoice = rapid.SampledFrom([]*provider.ToolChoice{nil, {Mode: "auto"}, {Mode: "tool", Name: "f"}}).Draw(t, "choice")
	}
	if maybe("settings") {
		chat.Temperature, chat.TopP = new(rapid.Float64Range(0, 2).Draw(t, "temperature")), new(rapid.SampledFrom([]float64{0, 1e-9, 0.1, 1}).Draw(t, "top_p"))
		chat.Seed, chat.ParallelTools = new(rapid.Int64().Draw(t, "seed")), new(maybe("parallel"))
		chat.Stop = rapid.SliceOfN(text, 0, 3).Draw(t, "stop")
		chat.ResponseFormat = json.RawMessage(`{"type":"json_object"}`)
	}
	return chat
}

// The written body equals what encoding/json makes of the same fields, in the same order.
func TestEncode(t *testing.T) {
	for name, base := range map[string]string{"openai": "https://api.openai.com", "mistral": "https://api.mistral.ai", "other": "http://127.0.0.1:8000"} {
		p, err := New(Config{Name: name, BaseURL: base, Transport: http.DefaultTransport})
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name, rapid.MakeCheck(func(t *rapid.T) {
			chat, stream := drawChat(t), rapid.Bool().Draw(t, "stream")
			got, err := p.encode(chat, stream)
			if err != nil {
				t.Fatal(err)
			}
			if text := normal(t, want(p, chat, stream)); !bytes.Equal(normal(t, got), text) || !inOrder(got) {
				t.Fatalf("got  %s\nwant %s", got, text)
			}
		}))
	}
}

// normal returns a text with its strings and numbers in one form.
func normal(t *rapid.T, v any) []byte {
	text, ok := v.(json.RawMessage)
	if !ok {
		var err error
		if text, err = json.Marshal(v); err != nil {
			t.Fatal(err)
		}
	}
	var read any
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	text, err := json.Marshal(read)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// inOrder reports whether model and messages come first, as in vendors' examples.
func inOrder(body []byte) bool {
	return bytes.HasPrefix(body, []byte(`{"model":`)) && bytes.Contains(body, []byte(`,"messages":[{"role":`))
}

// A number that JSON can't represent is refused by the gateway, and not sent.
func TestEncodeRefuses(t *testing.T) {
	p, err := New(Config{BaseURL: "https://api.openai.com", Transport: http.DefaultTransport})
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if body, err := p.encode(&provider.Chat{Model: "m", Temperature: &value}, false); err == nil {
			t.Errorf("%v: sent as %s", value, body)
		}
	}
	broken := &provider.Chat{Model: "m", Tools: []provider.Tool{{Name: "f", Parameters: json.RawMessage(`{"type":`)}}}
	if body, err := p.encode(broken, false); err == nil {
		t.Errorf("broken parameters: sent as %s", body)
	}
}

func BenchmarkEncode(b *testing.B) {
	p, err := New(Config{BaseURL: "http://127.0.0.1:8000", Transport: http.DefaultTransport})
	if err != nil {
		b.Fatal(err)
	}
	text := string(bytes.Repeat([]byte("How long is the train to the coast, and how many carriages does it have? "), 10))
	chat := &provider.Chat{Model: "load", MaxTokens: 500, Messages: []provider.Message{
		{Role: provider.RoleSystem, Content: []provider.Part{{Text: "Be brief."}}}, {Role: provider.RoleUser, Content: []provider.Part{{Text: text}}},
	}}
	b.Run("written", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := p.encode(chat, false); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("encoding/json", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if _, err := json.Marshal(want(p, chat, false)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
