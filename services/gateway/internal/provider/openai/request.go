package openai

import (
	"cmp"
	"encoding/json"

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
	Stream              bool            `json:"stream,omitempty"`
	StreamOptions       *streamOptions  `json:"stream_options,omitempty"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
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
	Index        *int            `json:"index,omitempty"`
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
	if p.completionTokens {
		r.MaxCompletionTokens = chat.MaxTokens
	} else {
		r.MaxTokens = chat.MaxTokens
	}
	if stream {
		r.Stream, r.StreamOptions = true, &streamOptions{IncludeUsage: true}
	}
	for _, m := range chat.Messages {
		r.Messages = append(r.Messages, encodeMessage(m))
	}
	for _, t := range chat.Tools {
		r.Tools = append(r.Tools, tool{Type: "function", Function: function(t)})
	}
	return r
}

func encodeMessage(m provider.Message) message {
	out := message{Role: string(m.Role), Name: m.Name, ToolCallID: m.ToolCallID, Content: encodeContent(m)}
	for _, call := range m.ToolCalls {
		out.ToolCalls = append(out.ToolCalls, toolCall{
			ID: call.ID, Type: "function", Function: callee{call.Name, cmp.Or(call.Arguments, "{}")}, ExtraContent: call.Extra,
		})
	}
	return out
}

// encodeContent keeps plain text a string: many compatible servers read nothing else.
func encodeContent(m provider.Message) any {
	if len(m.Content) == 0 && len(m.ToolCalls) > 0 {
		return nil
	}
	plain := true
	parts := make([]part, 0, len(m.Content))
	for _, c := range m.Content {
		if c.ImageURL == "" {
			parts = append(parts, part{Type: "text", Text: &c.Text})
			continue
		}
		plain = false
		parts = append(parts, part{Type: "image_url", ImageURL: &imageURL{c.ImageURL, c.Detail}})
	}
	if plain {
		return m.Text()
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
