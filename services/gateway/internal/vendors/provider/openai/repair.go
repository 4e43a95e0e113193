package openai

import (
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// mends tells that a caller's own conversation holds what the server would
// refuse: it was begun with another vendor.
func (p *Provider) mends(chat *provider.Chat) bool {
	return slices.ContainsFunc(chat.Messages, func(m provider.Message) bool {
		return p.toolID(m.ToolCallID) != m.ToolCallID || slices.ContainsFunc(m.ToolCalls, func(call provider.ToolCall) bool {
			return p.toolID(call.ID) != call.ID || (len(call.Extra) > 0 && p.extra(call.Extra) == nil)
		})
	})
}

// mended is a conversation with ids of calls as the server takes them, and without
// state that is another vendor's. All else stays byte for byte.
func (p *Provider) mended(messages gjson.Result) string {
	edit, list := wire.NewEditor(messages)
	each(list, func(message gjson.Result) {
		edit.Members(message, func(name string, value gjson.Result) bool {
			switch name {
			case "tool_call_id":
				p.mendID(edit, value)
			case "tool_calls":
				each(value, func(call gjson.Result) { p.mendCall(edit, call) })
			}
			return false
		})
	})
	return edit.End()
}

func (p *Provider) mendCall(edit *wire.Editor, call gjson.Result) {
	edit.Members(call, func(name string, value gjson.Result) bool {
		if name == "id" {
			p.mendID(edit, value)
		}
		return name == "extra_content" && p.extra(json.RawMessage(value.Raw)) == nil
	})
}

func (p *Provider) mendID(edit *wire.Editor, id gjson.Result) {
	if fit := p.toolID(id.Str); fit != id.Str {
		edit.Replace(id, `"`+fit+`"`) // Nine letters and digits.
	}
}
