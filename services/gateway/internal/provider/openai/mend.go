package openai

import (
	"encoding/json"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/provider"
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
	text := messages.Raw
	number(messages, func(at string, message gjson.Result) {
		text = p.mendID(text, at+".tool_call_id", message.Get("tool_call_id"))
		number(message.Get("tool_calls"), func(place string, call gjson.Result) {
			at := at + ".tool_calls." + place
			text = p.mendID(text, at+".id", call.Get("id"))
			if state := call.Get("extra_content"); state.Exists() && p.extra(json.RawMessage(state.Raw)) == nil {
				text, _ = sjson.Delete(text, at+".extra_content") // It is there.
			}
		})
	})
	return text
}

func (p *Provider) mendID(text, at string, id gjson.Result) string {
	if fit := p.toolID(id.Str); fit != id.Str {
		text, _ = sjson.Set(text, at, fit) // It is there.
	}
	return text
}

// number goes through a list with the place of each item.
func number(list gjson.Result, visit func(at string, item gjson.Result)) {
	n := 0
	each(list, func(item gjson.Result) {
		visit(strconv.Itoa(n), item)
		n++
	})
}
