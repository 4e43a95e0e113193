package openai

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// CanRelay implements provider.Relaying. Only servers that enforce OpenAI's rules refuse schemas, and only Mistral's
// validator the order of turns. A text as a file is read by few servers, but by all as a text.
func (p *Provider) CanRelay(chat *provider.Chat) bool {
	switch chat.Native.Dialect {
	case DialectName:
		return !p.reorders(chat.Messages) && !hasTextFiles(chat.Messages) && p.acceptsFiles(chat.Messages) && p.acceptsSchemas(chat)
	case ResponsesName:
		return p.acceptsSchemas(chat)
	}
	return true
}

// reorders reports whether the server's validator refuses the order of the turns.
func (p *Provider) reorders(messages []provider.Message) bool {
	if !p.traits.mistral {
		return false
	}
	var out []message
	for i := range messages {
		next := message{Role: string(messages[i].Role)}
		before := len(out)
		if out = orderForMistral(out, &next); len(out) > before || next.Role != string(messages[i].Role) {
			return true
		}
		out = append(out, next)
	}
	return false
}

func hasTextFiles(messages []provider.Message) bool {
	return slices.ContainsFunc(messages, func(m provider.Message) bool {
		return slices.ContainsFunc(m.Content, func(c provider.Part) bool {
			if c.File == nil {
				return false
			}
			_, ok := c.File.PlainText()
			return ok
		})
	})
}

func (p *Provider) acceptsFiles(messages []provider.Message) bool {
	return p.checkFiles(messages) == nil
}

// acceptsSchemas reports whether the server accepts the schemas of functions and of the answer as they are.
func (p *Provider) acceptsSchemas(chat *provider.Chat) bool {
	if !p.traits.enforces {
		return true
	}
	tools, err := p.encodeTools(chat.Tools)
	if err != nil {
		return false
	}
	for i := range tools {
		if !schema.Equal(chat.Tools[i].Parameters, tools[i].Function.Parameters) {
			return false
		}
	}
	format, err := p.encodeFormat(chat.ResponseFormat)
	return err == nil && schema.Equal(schemaOf(chat.ResponseFormat), schemaOf(format))
}

// schemaOf returns the schema of a response format; nil if it has none.
func schemaOf(format json.RawMessage) json.RawMessage {
	if given := gjson.GetBytes(format, "json_schema.schema"); given.IsObject() {
		return wire.Bytes(given)
	}
	return nil
}
