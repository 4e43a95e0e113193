package anthropic

import (
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/provider"
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
	text := messages.Raw
	number(messages, func(at string, message gjson.Result) {
		number(message.Get("content"), func(place string, block gjson.Result) {
			at := at + ".content." + place
			for _, field := range []string{"id", "tool_use_id"} {
				if id := block.Get(field).Str; toolID(id) != id {
					text, _ = sjson.Set(text, at+"."+field, toolID(id)) // It is there.
				}
			}
			if block.Get("extra_content").Exists() {
				text, _ = sjson.Delete(text, at+".extra_content") // It is there.
			}
		})
	})
	return text
}

// number goes through a list with the place of each item.
func number(list gjson.Result, visit func(at string, item gjson.Result)) {
	if !list.IsArray() {
		return
	}
	n := 0
	list.ForEach(func(_, item gjson.Result) bool {
		visit(strconv.Itoa(n), item)
		n++
		return true
	})
}
