package anthropic

import (
	"bytes"
	"cmp"
	"encoding/json"
	"strings"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
	"switchyard.dev/services/platform/screen"
)

type request struct {
	Model        string          `json:"model,omitempty"`
	Version      string          `json:"anthropic_version,omitempty"`
	MaxTokens    int             `json:"max_tokens"`
	System       []block         `json:"system,omitempty"`
	Messages     []message       `json:"messages"`
	Tools        []tool          `json:"tools,omitempty"`
	ToolChoice   *choice         `json:"tool_choice,omitempty"`
	OutputConfig *outputConfig   `json:"output_config,omitempty"`
	Thinking     *ThinkingConfig `json:"thinking,omitempty"`
	Temperature  *float64        `json:"temperature,omitempty"`
	TopP         *float64        `json:"top_p,omitempty"`
	Stop         []string        `json:"stop_sequences,omitempty"`
	Metadata     *metadata       `json:"metadata,omitempty"`
	Stream       bool            `json:"stream,omitempty"`
}

// metadata says who is served, by a name that tells nothing of them.
type metadata struct {
	UserID string `json:"user_id"`
}

type message struct {
	Role    string `json:"role"`
	Content []any  `json:"content"`
}

// block is any content block of the dialect; each type uses its own fields. A block that is sent back unchanged is a
// json.RawMessage instead.
type block struct {
	Type      string          `json:"type"`
	Text      string          `json:"text,omitempty"`
	Title     string          `json:"title,omitempty"`
	Source    *source         `json:"source,omitempty"`
	ID        string          `json:"id,omitempty"`
	Name      string          `json:"name,omitempty"`
	Input     json.RawMessage `json:"input,omitempty"`
	ToolUseID string          `json:"tool_use_id,omitempty"`
	Content   []block         `json:"content,omitempty"`
	Cache     *cacheControl   `json:"cache_control,omitempty"`
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
	Strict      bool            `json:"strict,omitempty"`
}

type choice struct {
	Type            string `json:"type"`
	Name            string `json:"name,omitempty"`
	DisableParallel bool   `json:"disable_parallel_tool_use,omitempty"`
}

// encode puts the system messages into the dialect's own field. It joins consecutive turns of the same side, because the
// dialect requires user and assistant to alternate. Terms.Fit must have adapted the chat. limit is the model's configured
// limit of output tokens; 0 for none.
func encode(chat *provider.Chat, stream bool, limit int) (*request, error) {
	if err := check(chat); err != nil {
		return nil, err
	}
	plan := PlanThinking(chat, cmp.Or(chat.MaxTokens, limit, defaultMaxTokens), limit)
	r := &request{
		Model: chat.Model, MaxTokens: plan.MaxTokens, Thinking: plan.Config, Temperature: chat.Temperature, TopP: chat.TopP,
		Stop: chat.Stop, Stream: stream, ToolChoice: encodeChoice(chat),
	}
	if chat.EndUser != "" {
		r.Metadata = &metadata{chat.EndUser}
	}
	for _, m := range chat.Messages {
		if m.Role == provider.RoleSystem {
			parts, err := encodeParts(m.Content)
			if err != nil {
				return nil, err
			}
			r.System = append(r.System, parts...)
			continue
		}
		blocks, err := encodeBlocks(m)
		if err != nil {
			return nil, err
		}
		r.join(m.Role, blocks)
	}
	for i := range chat.Tools {
		t := &chat.Tools[i]
		schema, err := InputSchema(i, t)
		if err != nil {
			return nil, err
		}
		r.Tools = append(r.Tools, tool{t.Name, t.Description, schema, t.Strict})
	}
	r.limitCachePoints()
	return r, r.encodeOutput(chat, plan.Effort)
}

// check returns an error for settings that the dialect can't express and on which the answer depends. Hints are left
// out: a seed is best effort at every vendor.
func check(chat *provider.Chat) error {
	if chat.Temperature != nil && *chat.Temperature > 1 {
		return provider.Unsupported("temperature", "this provider accepts 0 to 1")
	}
	return chat.WithoutNames()
}

// join adds a turn.
func (r *request) join(of provider.Role, blocks []any) {
	role := "user"
	if of == provider.RoleAssistant {
		role = "assistant"
	}
	if last := len(r.Messages) - 1; last >= 0 && r.Messages[last].Role == role {
		r.Messages[last].Content = append(r.Messages[last].Content, blocks...)
		return
	}
	r.Messages = append(r.Messages, message{role, blocks})
}

// encodeBlocks returns a turn's blocks in the order in which the vendor made them: thinking, text, and each call behind
// the thinking that led to it.
func encodeBlocks(m provider.Message) ([]any, error) {
	parts, err := encodeParts(m.Content)
	if err != nil {
		return nil, err
	}
	if m.Role == provider.RoleTool {
		result := block{Type: "tool_result", ToolUseID: ToolID(m.ToolCallID), Content: parts}
		for i := range parts { // A point within a result ends behind the result.
			if parts[i].Cache != nil {
				result.Cache, parts[i].Cache = parts[i].Cache, nil
			}
		}
		return []any{result}, nil
	}
	var lead, calls []any
	for _, call := range m.ToolCalls {
		thought, err := ThinkingOf(call)
		if err != nil {
			return nil, err
		}
		use, err := encodeCall(call)
		if err != nil {
			return nil, err
		}
		lead = appendRaw(lead, thought.Lead)
		calls = append(appendRaw(calls, thought.Before), use)
	}
	blocks := lead
	for _, part := range parts {
		blocks = append(blocks, part)
	}
	return append(blocks, calls...), nil
}

func appendRaw(blocks []any, raw []json.RawMessage) []any {
	for _, b := range raw {
		blocks = append(blocks, b)
	}
	return blocks
}

func encodeCall(call provider.ToolCall) (block, error) {
	input, err := Input(call)
	return block{Type: "tool_use", ID: ToolID(call.ID), Name: call.Name, Input: input}, err
}

// Input returns the arguments of a call as JSON; none are an empty object.
func Input(call provider.ToolCall) (json.RawMessage, error) {
	input := bytes.TrimSpace([]byte(call.Arguments))
	if len(input) == 0 {
		input = []byte(noArguments)
	}
	if !jsoncheck.Valid(input) {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "tool_calls: the arguments of the function " + screen.Quote(call.Name) + " are not JSON"}
	}
	return input, nil
}

// ToolID replaces the characters that the dialect doesn't accept in an ID: IDs of other vendors
// ("functions.get_time:0") come here when a conversation changes its provider.
func ToolID(id string) string {
	return strings.Map(func(r rune) rune {
		if r == '-' || (r >= '0' && r <= '9') || (r >= 'A' && r <= 'Z') || (r >= 'a' && r <= 'z') {
			return r
		}
		return '_'
	}, id)
}

// encodeParts encodes the parts of a turn. The dialect has no setting for an image's detail, which is only a hint.
func encodeParts(parts []provider.Part) ([]block, error) {
	var blocks []block
	for _, part := range parts {
		switch {
		case part.File != nil:
			document, err := encodeDocument(part.File)
			if err != nil {
				return nil, err
			}
			blocks = append(blocks, document)
		case part.ImageURL != "":
			blocks = append(blocks, encodeImage(part.ImageURL))
		default:
			blocks = append(blocks, block{Type: "text", Text: part.Text})
		}
		if part.Cache != "" {
			blocks[len(blocks)-1].Cache = newCachePoint(part.Cache)
		}
	}
	return blocks, nil
}

// encodeImage splits a data: URI (RFC 2397) into the dialect's fields; any other URL is fetched by the vendor.
func encodeImage(url string) block {
	rest, isData := strings.CutPrefix(url, "data:")
	kind, data, hasBase64 := strings.Cut(rest, ";base64,")
	if !isData || !hasBase64 {
		return block{Type: "image", Source: &source{Type: "url", URL: url}}
	}
	return block{Type: "image", Source: &source{Type: "base64", MediaType: kind, Data: data}}
}

// encodeChoice returns which tools may be called, and whether several at a time. The dialect has the latter within the
// choice, so that a request without a choice gets "auto", the default.
func encodeChoice(chat *provider.Chat) *choice {
	single := chat.ParallelTools != nil && !*chat.ParallelTools && len(chat.Tools) > 0
	c := choice{Type: "auto", DisableParallel: single}
	switch {
	case chat.ToolChoice == nil && !single:
		return nil
	case chat.ToolChoice == nil:
	case chat.ToolChoice.Mode == "required":
		c.Type = "any"
	case chat.ToolChoice.Mode == "tool":
		c.Type, c.Name = "tool", chat.ToolChoice.Name
	case chat.ToolChoice.Mode == "none":
		return &choice{Type: "none"}
	}
	return &c
}
