package anthropic

import (
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/schema"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// CanRelay implements provider.Relaying.
func (p *Provider) CanRelay(chat *provider.Chat) bool { return CanRelay(chat) }

// CanRelay reports whether Claude accepts the caller's body, on any host. It refuses schemas and documents that it can't
// read, and anything before the results of calls in a turn.
func CanRelay(chat *provider.Chat) bool {
	for i := range chat.Tools {
		given := chat.Tools[i].Parameters
		if parameters, err := InputSchema(i, &chat.Tools[i]); err != nil || !schema.Equal(given, parameters) {
			return false
		}
	}
	form, err := FormatOf(chat)
	if err != nil || form.Schema != nil && (!enforces(chat.Model) || !schema.Equal(strictSchema(chat.ResponseFormat), form.Schema)) {
		return false
	}
	hasFiles := func(m provider.Message) bool {
		return slices.ContainsFunc(m.Content, func(p provider.Part) bool { return p.File != nil })
	}
	hasResults := func(m provider.Message) bool { return m.Role == provider.RoleTool }
	if !slices.ContainsFunc(chat.Messages, hasFiles) && !slices.ContainsFunc(chat.Messages, hasResults) {
		return true
	}
	accepted := true
	each(wire.ParseView(chat.Native.Body).Get("messages"), func(message gjson.Result) {
		accepted = accepted && acceptsTurn(message.Get("content"))
	})
	return accepted
}

// acceptsTurn reports whether the results of a turn come first, and its documents are of types that the vendor reads.
func acceptsTurn(content gjson.Result) bool {
	accepted, begun := true, false
	each(content, func(block gjson.Result) {
		switch block.Get("type").Str {
		case "tool_result":
			accepted = accepted && !begun
			each(block.Get("content"), func(inner gjson.Result) { accepted = accepted && acceptsDocument(inner) })
		default:
			begun = true
			accepted = accepted && acceptsDocument(block)
		}
	})
	return accepted
}

// acceptsDocument reports whether a block is no document of a type that the vendor doesn't read.
func acceptsDocument(block gjson.Result) bool {
	source := block.Get("source")
	return block.Get("type").Str != "document" || source.Get("type").Str != "base64" || source.Get("media_type").Str == provider.TypePDF
}
