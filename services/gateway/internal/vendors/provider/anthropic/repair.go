package anthropic

import (
	"slices"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// needsRepair reports whether a native conversation holds something that the vendor would refuse, because the
// conversation began with another vendor.
func needsRepair(chat *provider.Chat) bool {
	return slices.ContainsFunc(chat.Messages, func(m provider.Message) bool {
		return ToolID(m.ToolCallID) != m.ToolCallID || slices.ContainsFunc(m.ToolCalls, func(call provider.ToolCall) bool {
			return ToolID(call.ID) != call.ID || len(call.Extra) > 0
		})
	})
}

// repaired returns a conversation with IDs of calls that the vendor accepts, and without the opaque state of other
// vendors, for which it has no field. The rest stays byte for byte.
func repaired(messages gjson.Result) string {
	edit, list := wire.NewEditor(messages)
	each(list, func(message gjson.Result) {
		edit.Members(message, func(name string, value gjson.Result) bool {
			if name == "content" {
				each(value, func(block gjson.Result) { repairBlock(edit, block) })
			}
			return false
		})
	})
	return edit.End()
}

func repairBlock(edit *wire.Editor, block gjson.Result) {
	edit.Members(block, func(name string, value gjson.Result) bool {
		if id := value.Str; (name == "id" || name == "tool_use_id") && ToolID(id) != id {
			edit.Replace(value, quote(ToolID(id)))
		}
		return name == "extra_content"
	})
}

// withoutOwn returns a conversation without thinking and citations that the gateway marked as its own. It drops a turn
// that holds only such thinking.
func withoutOwn(messages gjson.Result) string {
	if !messages.IsArray() {
		return messages.Raw
	}
	var kept []string
	each(messages, func(message gjson.Result) {
		content := message.Get("content")
		blocks := withoutOwnBlocks(content)
		switch {
		case blocks == content.Raw:
			kept = append(kept, message.Raw)
		case blocks != "[]":
			kept = append(kept, string(wire.Override([]byte(message.Raw), wire.Member{Name: "content", Value: blocks})))
		}
	})
	return "[" + strings.Join(kept, ",") + "]"
}

func withoutOwnBlocks(content gjson.Result) string {
	var blocks []string
	removed := false
	each(content, func(block gjson.Result) {
		if isThinking(block.Get("type").Str) && block.Get("signature").Str == OwnSignature {
			removed = true
			return
		}
		text := withoutOwnCitations(block)
		removed = removed || text != block.Raw
		blocks = append(blocks, text)
	})
	if !removed {
		return content.Raw
	}
	return "[" + strings.Join(blocks, ",") + "]"
}

// withoutOwnCitations returns a text block without the citations that the gateway wrote, because the vendor doesn't
// know their sources.
func withoutOwnCitations(block gjson.Result) string {
	citations := block.Get("citations")
	var kept []string
	removed := false
	each(citations, func(c gjson.Result) {
		if c.Get("encrypted_index").Str == OwnSignature || c.Get("file_id").Str == OwnSignature {
			removed = true
			return
		}
		kept = append(kept, c.Raw)
	})
	switch {
	case !removed:
		return block.Raw
	case kept == nil:
		return string(wire.Override([]byte(block.Raw), wire.Member{Name: "citations"}))
	}
	return string(wire.Override([]byte(block.Raw), wire.Member{Name: "citations", Value: "[" + strings.Join(kept, ",") + "]"}))
}

// each visits the items of a list; any other value is an empty list.
func each(list gjson.Result, visit func(item gjson.Result)) {
	if list.IsArray() {
		list.ForEach(func(_, item gjson.Result) bool {
			visit(item)
			return true
		})
	}
}
