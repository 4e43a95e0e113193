package anthropic

import (
	"bytes"
	"encoding/json"
	"strings"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

type request struct {
	Model       string    `json:"model"`
	MaxTokens   int       `json:"max_tokens"`
	System      []block   `json:"system,omitempty"`
	Messages    []message `json:"messages"`
	Tools       []tool    `json:"tools,omitempty"`
	ToolChoice  *choice   `json:"tool_choice,omitempty"`
	Temperature *float64  `json:"temperature,omitempty"`
	TopP        *float64  `json:"top_p,omitempty"`
	Stop        []string  `json:"stop_sequences,omitempty"`
	Stream      bool      `json:"stream,omitempty"`
}

type message struct {
	Role    string  `json:"role"`
	Content []block `json:"content"`
}

// block is any content block of the dialect; each type fills its own fields.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []block         `json:"content,omitempty"`
}

type source struct {
	Type      string `json:"type"`
	URL       string `json:"url,omitempty"`
	MediaType string `json:"media_type,omitempty"`
	Data      string `json:"data,omitempty"`
}

type tool struct {
	Name        string          `json:"name"`
	Description string          `json:"description,omitempty"`
	InputSchema json.RawMessage `json:"input_schema"`
}

type choice struct {
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
}

// encode puts system messages into the dialect's own slot, and joins turns of
// the same side: the dialect wants user and assistant to alternate.
func encode(chat *provider.Chat, stream bool) (*request, error) {
	r := &request{
		Model: chat.Model, MaxTokens: chat.MaxTokens, Temperature: chat.Temperature, TopP: chat.TopP,
		Stop: chat.Stop, Stream: stream, ToolChoice: encodeChoice(chat.ToolChoice),
	}
	if r.MaxTokens == 0 {
		r.MaxTokens = defaultMaxTokens
	}
	for _, m := range chat.Messages {
		blocks, err := encodeBlocks(m)
		if err != nil {
			return nil, err
		}
		if len(blocks) == 0 {
			continue // The dialect refuses a turn that says nothing.
		}
		role := "user"
		switch m.Role {
		case provider.RoleSystem:
			r.System = append(r.System, blocks...)
			continue
		case provider.RoleAssistant:
			role = "assistant"
		case provider.RoleUser, provider.RoleTool:
		}
		if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == role {
			r.Messages[last].Content = append(r.Messages[last].Content, blocks...)
			continue
		}
		r.Messages = append(r.Messages, message{role, blocks})
	}
	for _, t := range chat.Tools {
		schema := t.Parameters
		if len(schema) == 0 {
			schema = json.RawMessage(`{"type":"object"}`)
		}
		r.Tools = append(r.Tools, tool{t.Name, t.Description, schema})
	}
	return r, encodeFormat(r, chat.ResponseFormat)
}

// encodeFormat asks for JSON in words: the dialect has no setting for it.
func encodeFormat(r *request, format json.RawMessage) error {
	if len(format) == 0 {
		return nil
	}
	var f struct {
		Type       string `json:"type"`
		JSONSchema struct {
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if err := json.Unmarshal(format, &f); err != nil {
		return &provider.Error{Class: apierr.ClassPolicy, Text: "response_format: is not valid", Cause: err}
	}
	switch f.Type {
	case "json_object":
		r.System = append(r.System, block{Type: "text", Text: "Answer with one JSON object and nothing else."})
	case "json_schema":
		r.System = append(r.System, block{Type: "text", Text: "Answer with one JSON value that matches this JSON schema, and nothing else:\n" + string(f.JSONSchema.Schema)})
	}
	return nil
}

func encodeBlocks(m provider.Message) ([]block, error) {
	var blocks []block
	for _, part := range m.Content {
		switch {
		case part.ImageURL != "":
			blocks = append(blocks, encodeImage(part.ImageURL))
		case part.Text != "":
			blocks = append(blocks, block{Type: "text", Text: part.Text})
		}
	}
	if m.Role == provider.RoleTool {
		return []block{{Type: "tool_result", ToolUseID: m.ToolCallID, Content: blocks}}, nil
	}
	for _, call := range m.ToolCalls {
		input := bytes.TrimSpace([]byte(call.Arguments))
		if len(input) == 0 {
			input = []byte(noArguments)
		}
		if !json.Valid(input) {
			return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "tool_calls: the arguments of " + call.Name + " are not JSON"}
		}
		blocks = append(blocks, block{Type: "tool_use", ID: call.ID, Name: call.Name, Input: input})
	}
	return blocks, nil
}

// encodeImage splits a data: URI (RFC 2397) into what the dialect wants; any
// other URL is fetched by the vendor.
func encodeImage(url string) block {
	rest, isData := strings.CutPrefix(url, "data:")
	kind, data, hasBase64 := strings.Cut(rest, ";base64,")
	if !isData || !hasBase64 {
		return block{Type: "image", Source: &source{Type: "url", URL: url}}
	}
	return block{Type: "image", Source: &source{Type: "base64", MediaType: kind, Data: data}}
}

func encodeChoice(c *provider.ToolChoice) *choice {
	if c == nil {
		return nil
	}
	switch c.Mode {
	case "required":
		return &choice{Type: "any"}
	case "tool":
		return &choice{Type: "tool", Name: c.Name}
	}
	return &choice{Type: c.Mode}
}
