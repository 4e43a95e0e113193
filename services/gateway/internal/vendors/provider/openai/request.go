package openai

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

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

// encode writes a request's body. Rare fields are encoded by encoding/json.
func (p *Provider) encode(chat *provider.Chat, stream bool) (json.RawMessage, error) {
	o := jsontext.Begin(make([]byte, 0, bodySize(chat)))
	o.Text("model", chat.Model)
	p.writeMessages(&o, chat.Messages)
	if len(chat.Tools) > 0 {
		o.Value("tools", encodeTools(chat.Tools))
	}
	if chat.ToolChoice != nil {
		o.Value("tool_choice", encodeChoice(chat.ToolChoice))
	}
	if len(chat.ResponseFormat) > 0 {
		o.Value("response_format", chat.ResponseFormat)
	}
	if p.traits.completionTokens {
		o.IntNonZero("max_completion_tokens", int64(chat.MaxTokens))
	} else {
		o.IntNonZero("max_tokens", int64(chat.MaxTokens))
	}
	writeSetting("temperature", chat.Temperature, o.Float)
	writeSetting("top_p", chat.TopP, o.Float)
	if len(chat.Stop) > 0 {
		o.Value("stop", chat.Stop)
	}
	writeSetting("seed", chat.Seed, o.Int)
	if len(chat.Tools) > 0 { // Without tools the setting is refused.
		writeSetting("parallel_tool_calls", chat.ParallelTools, o.Bool)
	}
	if stream {
		p.writeStream(&o)
	}
	return o.End(), o.Err
}

func writeSetting[T any](name string, value *T, write func(string, T)) {
	if value != nil {
		write(name, *value)
	}
}

// bodySize returns the approximate length of a body.
func bodySize(chat *provider.Chat) int {
	const head, each = 256, 64
	n := head
	for i := range chat.Messages {
		for j := range chat.Messages[i].Content {
			n += each + len(chat.Messages[i].Content[j].Text)
		}
	}
	return n
}

func (p *Provider) writeStream(o *jsontext.Object) {
	o.Bool("stream", true)
	if !p.traits.streamUsage {
		return
	}
	o.Name("stream_options")
	options := jsontext.Begin(o.Out)
	options.Bool("include_usage", true)
	if p.traits.obfuscates { // false saves the padding of each chunk.
		options.Bool("include_obfuscation", false)
	}
	o.Out = options.End()
}

func (p *Provider) writeMessages(o *jsontext.Object, messages []provider.Message) {
	o.Name("messages")
	o.Out = append(o.Out, '[')
	for i := range messages {
		if i > 0 {
			o.Out = append(o.Out, ',')
		}
		p.writeMessage(o, &messages[i])
	}
	o.Out = append(o.Out, ']')
}

func (p *Provider) writeMessage(in *jsontext.Object, m *provider.Message) {
	o := jsontext.Object{Out: append(in.Out, '{'), Err: in.Err}
	o.Text("role", string(m.Role))
	switch {
	case len(m.Content) == 0 && len(m.ToolCalls) > 0:
		o.Null("content")
	case slices.ContainsFunc(m.Content, func(c provider.Part) bool { return c.ImageURL != "" }):
		o.Value("content", encodeParts(m.Content))
	default: // Many compatible servers accept only a string.
		o.Text("content", m.Text())
	}
	o.TextNonEmpty("name", m.Name)
	if len(m.ToolCalls) > 0 {
		o.Value("tool_calls", p.encodeCalls(m.ToolCalls))
	}
	o.TextNonEmpty("tool_call_id", p.toolID(m.ToolCallID))
	in.Out, in.Err = o.End(), o.Err
}

func (p *Provider) encodeCalls(calls []provider.ToolCall) []toolCall {
	out := make([]toolCall, len(calls))
	for i, call := range calls {
		out[i] = toolCall{
			ID: p.toolID(call.ID), Type: "function",
			Function: callee{call.Name, cmp.Or(call.Arguments, "{}")}, ExtraContent: p.extra(call.Extra),
		}
	}
	return out
}

func encodeTools(tools []provider.Tool) []tool {
	out := make([]tool, len(tools))
	for i, t := range tools {
		out[i] = tool{Type: "function", Function: function(t)}
	}
	return out
}

func (p *Provider) toolID(id string) string {
	if p.traits.shortToolIDs {
		return shortID(id)
	}
	return id
}

// extra returns the opaque state of a call if the server may use it: Anthropic's is not for this dialect, and a strict
// server accepts none.
func (p *Provider) extra(state json.RawMessage) json.RawMessage {
	if len(state) == 0 || p.traits.strict || gjson.GetBytes(state, "anthropic").Exists() {
		return nil
	}
	return state
}

func encodeParts(content []provider.Part) []part {
	parts := make([]part, len(content))
	for i, c := range content {
		if c.ImageURL == "" {
			parts[i] = part{Type: "text", Text: &c.Text}
		} else {
			parts[i] = part{Type: "image_url", ImageURL: &imageURL{c.ImageURL, c.Detail}}
		}
	}
	return parts
}

func encodeChoice(choice *provider.ToolChoice) any {
	if choice.Mode == "tool" {
		return map[string]any{"type": "function", "function": map[string]string{"name": choice.Name}}
	}
	return choice.Mode
}
