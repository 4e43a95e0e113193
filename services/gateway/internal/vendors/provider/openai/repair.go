package openai

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// needsRepair reports whether a native conversation holds something that the server would refuse, because the
// conversation began with another vendor.
func (p *Provider) needsRepair(chat *provider.Chat) bool {
	return slices.ContainsFunc(chat.Messages, func(m provider.Message) bool {
		return p.toolID(m.ToolCallID) != m.ToolCallID || slices.ContainsFunc(m.ToolCalls, func(call provider.ToolCall) bool {
			return p.toolID(call.ID) != call.ID || !bytes.Equal(p.extra(call.Extra), call.Extra)
		}) || p.traits.strict && m.Reasoning != ""
	})
}

// repaired returns a conversation with IDs of calls that the server accepts, and without state of other vendors. The rest
// stays byte for byte.
func (p *Provider) repaired(messages gjson.Result) string {
	edit, list := wire.NewEditor(messages)
	each(list, func(message gjson.Result) {
		edit.Members(message, func(name string, value gjson.Result) bool {
			switch name {
			case "tool_call_id":
				p.repairID(edit, value)
			case "tool_calls":
				each(value, func(call gjson.Result) { p.repairCall(edit, call) })
			case memberReasoningContent, memberReasoning, memberDetails:
				return p.traits.strict
			}
			return false
		})
	})
	return edit.End()
}

func (p *Provider) repairCall(edit *wire.Editor, call gjson.Result) {
	edit.Members(call, func(name string, value gjson.Result) bool {
		if name == "id" {
			p.repairID(edit, value)
		}
		if name != "extra_content" {
			return false
		}
		state := json.RawMessage(value.Raw)
		kept := p.extra(state)
		if kept != nil && !bytes.Equal(kept, state) {
			edit.Replace(value, string(kept))
		}
		return kept == nil
	})
}

func (p *Provider) repairID(edit *wire.Editor, id gjson.Result) {
	if fit := p.toolID(id.Str); fit != id.Str {
		edit.Replace(id, `"`+fit+`"`) // Nine letters and digits.
	}
}
