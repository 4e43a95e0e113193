package anthropic

import (
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// mends tells that a caller's own conversation holds what the vendor would
// refuse: it was begun with another one.
func mends(chat *provider.Chat) bool {
	return slices.ContainsFunc(chat.Messages, func(m provider.Message) bool {
		return toolID(m.ToolCallID) != m.ToolCallID || slices.ContainsFunc(m.ToolCalls, func(call provider.ToolCall) bool {
			return toolID(call.ID) != call.ID || len(call.Extra) > 0
		})
	})
}

// mended is a conversation with ids of calls as the vendor takes them, and without
// the opaque state of others, for which it has no field. All else stays byte for byte.
func mended(messages gjson.Result) string {
	edit, list := wire.NewEditor(messages)
	each(list, func(message gjson.Result) {
		edit.Members(message, func(name string, value gjson.Result) bool {
			if name == "content" {
				each(value, func(block gjson.Result) { mendBlock(edit, block) })
			}
			return false
		})
	})
	return edit.End()
}

func mendBlock(edit *wire.Editor, block gjson.Result) {
	edit.Members(block, func(name string, value gjson.Result) bool {
		if id := value.Str; (name == "id" || name == "tool_use_id") && toolID(id) != id {
			edit.Replace(value, quote(toolID(id)))
		}
		return name == "extra_content"
	})
}

// each goes through a list; anything else is an empty one.
func each(list gjson.Result, visit func(item gjson.Result)) {
	if list.IsArray() {
		list.ForEach(func(_, item gjson.Result) bool {
			visit(item)
			return true
		})
	}
}
