package openai

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/provider"
)

type request struct {
	Model               string          `json:"model"`
	Messages            []message       `json:"messages"`
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
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
	// IncludeObfuscation false saves the padding of each chunk.
	IncludeObfuscation *bool `json:"include_obfuscation,omitempty"`
}

type message struct {
	Role string `json:"role"`
	// Content is a string, a list of parts, or null beside tool calls.
	Content    any        `json:"content"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []toolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

type part struct {
	Type     string    `json:"type"`
	Text     *string   `json:"text,omitempty"`
	ImageURL *imageURL `json:"image_url,omitempty"`
}

type imageURL struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

type tool struct {
	Type     string   `json:"type"`
	Function function `json:"function"`
}

type function struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	Parameters  json.RawMessage `json:"parameters,omitempty"`
	Strict      bool            `json:"strict,omitempty"`
}

type toolCall struct {
	ID           string          `json:"id,omitempty"`
	Type         string          `json:"type,omitempty"`
	Function     callee          `json:"function"`
	ExtraContent json.RawMessage `json:"extra_content,omitempty"`
}

type callee struct {
	Name      string `json:"name,omitempty"`
	Arguments string `json:"arguments"`
}

func (p *Provider) encode(chat *provider.Chat, stream bool) request {
	r := request{
		Model: chat.Model, ResponseFormat: chat.ResponseFormat, Temperature: chat.Temperature,
		TopP: chat.TopP, Stop: chat.Stop, Seed: chat.Seed, ToolChoice: encodeChoice(chat.ToolChoice),
	}
	if p.traits.completionTokens {
		r.MaxCompletionTokens = chat.MaxTokens
	} else {
		r.MaxTokens = chat.MaxTokens
	}
	if stream {
		r.Stream, r.StreamOptions = true, p.streamOptions()
	}
	for _, m := range chat.Messages {
		r.Messages = append(r.Messages, p.encodeMessage(m))
	}
	for _, t := range chat.Tools {
		r.Tools = append(r.Tools, tool{Type: "function", Function: function(t)})
	}
	if len(r.Tools) > 0 { // Without tools the setting is refused.
		r.ParallelToolCalls = chat.ParallelTools
	}
	return r
}

func (p *Provider) streamOptions() *streamOptions {
	if !p.traits.streamUsage {
		return nil
	}
	options := &streamOptions{IncludeUsage: true}
	if p.traits.obfuscates {
		options.IncludeObfuscation = new(false)
	}
	return options
}

func (p *Provider) encodeMessage(m provider.Message) message {
	out := message{Role: string(m.Role), Name: m.Name, ToolCallID: p.toolID(m.ToolCallID), Content: encodeContent(m)}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, toolCall{
			ID: p.toolID(call.ID), Type: "function",
			Function: callee{call.Name, cmp.Or(call.Arguments, "{}")}, ExtraContent: p.extra(call.Extra),
		})
	}
	return out
}

func (p *Provider) toolID(id string) string {
	if p.traits.shortToolIDs {
		return shortID(id)
	}
	return id
}

// extra is the opaque state of a call, where it may be of use: what Anthropic
// said is not for this dialect, and a strict server takes none.
func (p *Provider) extra(state json.RawMessage) json.RawMessage {
	if len(state) == 0 || p.traits.strict || gjson.GetBytes(state, "anthropic").Exists() {
		return nil
	}
	return state
}

// encodeContent keeps plain text a string: many compatible servers read nothing else.
func encodeContent(m provider.Message) any {
	if len(m.Content) == 0 && len(m.ToolCalls) > 0 {
		return nil
	}
	if !slices.ContainsFunc(m.Content, func(c provider.Part) bool { return c.ImageURL != "" }) {
		return m.Text()
	}
	parts := make([]part, len(m.Content))
	for i, c := range m.Content {
		if c.ImageURL == "" {
			parts[i] = part{Type: "text", Text: &c.Text}
		} else {
			parts[i] = part{Type: "image_url", ImageURL: &imageURL{c.ImageURL, c.Detail}}
		}
	}
	return parts
}

func encodeChoice(choice *provider.ToolChoice) any {
	switch {
	case choice == nil:
		return nil
	case choice.Mode == "tool":
		return map[string]any{"type": "function", "function": map[string]string{"name": choice.Name}}
	}
	return choice.Mode
}
