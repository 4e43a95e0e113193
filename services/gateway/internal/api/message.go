package api

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"unicode/utf8"

	gatewayv1 "switchyard.dev/gen/go/switchyard/gateway/v1"
	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// toMessage returns one message; its errors begin with the field.
func toMessage(m *gatewayv1.ChatMessage) (provider.Message, error) {
	out := provider.Message{Role: provider.Role(m.GetRole()), Name: m.GetName(), ToolCallID: m.GetToolCallId()}
	switch {
	case out.Role == provider.RoleTool && out.ToolCallID == "":
		return out, apierr.Invalid("tool_call_id", "is required in a tool message")
	case out.Role != provider.RoleTool && out.ToolCallID != "":
		return out, apierr.Invalid("tool_call_id", "is for tool messages only")
	case out.Role != provider.RoleAssistant && len(m.GetToolCalls()) > 0:
		return out, apierr.Invalid("tool_calls", "are for assistant messages only")
	}
	var err error
	for i, call := range m.GetToolCalls() {
		made := provider.ToolCall{Index: i, ID: call.GetId(), Name: call.GetFunction().GetName(), Arguments: call.GetFunction().GetArguments()}
		if made.Extra, err = toExtra(call.GetExtraContent()); err != nil {
			return out, within(dialect.At("tool_calls", i)+".extra_content", err)
		}
		out.ToolCalls = append(out.ToolCalls, made)
	}
	out.Content, err = toContent(m.GetContent(), out.Role)
	if err != nil {
		return out, within("content", err)
	}
	if out.Content == nil && len(out.ToolCalls) == 0 {
		return out, apierr.Invalid("content", "is required")
	}
	return out, nil
}

// toExtra returns a vendor's state of a call, which is an object at every vendor.
func toExtra(raw []byte) (json.RawMessage, error) {
	raw = bytes.TrimSpace(raw)
	switch {
	case len(raw) == 0 || string(raw) == "null":
		return nil, nil
	case raw[0] != '{' || !jsoncheck.Valid(raw):
		return nil, apierr.Invalid(whole, "must be an object")
	}
	return raw, nil
}

// part is a content part of the contract.
type part struct {
	Type     string     `json:"type"`
	Text     *string    `json:"text,omitempty"`
	ImageURL *partImage `json:"image_url,omitempty"`
}

type partImage struct {
	URL    string `json:"url"`
	Detail string `json:"detail,omitempty"`
}

// toText decodes a JSON string. One without an escape is returned as it is.
func toText(raw []byte) (text string, err error) {
	if end := len(raw) - 1; end > 0 && raw[end] == '"' && isPlain(raw[1:end]) {
		return string(raw[1:end]), nil
	}
	err = json.Unmarshal(raw, &text)
	return text, err
}

// isPlain reports whether the inside of a JSON string needs no decoding.
func isPlain(text []byte) bool {
	for _, c := range text {
		if c < ' ' || c == '"' || c == '\\' {
			return false
		}
	}
	return utf8.Valid(text)
}

// toContent returns the content parts of a string or of an array of parts.
func toContent(raw []byte, role provider.Role) ([]provider.Part, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	if raw[0] == '"' {
		text, err := toText(raw)
		if err != nil {
			return nil, refuse(whole, err)
		}
		return []provider.Part{{Text: text}}, nil
	}
	if raw[0] != '[' {
		return nil, apierr.Invalid(whole, "must be a string or an array of parts")
	}
	var parts []part
	if err := decode(bytes.NewReader(raw), &parts); err != nil {
		return nil, err
	}
	if len(parts) == 0 {
		return nil, apierr.Invalid(whole, "must not be empty")
	}
	content := make([]provider.Part, len(parts))
	for i, p := range parts {
		var err error
		if content[i], err = toPart(p, role); err != nil {
			return nil, within(dialect.At("", i), err)
		}
	}
	return content, nil
}

func toPart(p part, role provider.Role) (provider.Part, error) {
	switch {
	case p.Type == "text" && p.Text != nil && p.ImageURL == nil:
		return provider.Part{Text: *p.Text}, nil
	case p.Type == "text":
		return provider.Part{}, apierr.Invalid(whole, "a text part has text and nothing else")
	case p.Type != "image_url":
		return provider.Part{}, apierr.Invalid("type", "must be text or image_url")
	case p.ImageURL == nil || p.Text != nil:
		return provider.Part{}, apierr.Invalid(whole, "an image_url part has image_url and nothing else")
	case role != provider.RoleUser:
		return provider.Part{}, apierr.Invalid(whole, "images are for user messages only")
	case !strings.HasPrefix(p.ImageURL.URL, "https://") && !strings.HasPrefix(p.ImageURL.URL, "data:"):
		return provider.Part{}, apierr.Invalid("image_url.url", "must be an https URL or a data: URI of an image")
	case !slices.Contains([]string{"", "auto", "low", "high"}, p.ImageURL.Detail):
		return provider.Part{}, apierr.Invalid("image_url.detail", "must be auto, low or high")
	}
	return provider.Part{ImageURL: p.ImageURL.URL, Detail: p.ImageURL.Detail}, nil
}
