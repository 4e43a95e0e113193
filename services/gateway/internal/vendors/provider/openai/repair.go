package openai

import (
	"bytes"
	"cmp"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// needsRepair reports whether a native conversation may hold something that the server would refuse, because the
// conversation began with another vendor.
func (p *Provider) needsRepair(chat *provider.Chat) bool {
	return slices.ContainsFunc(chat.Messages, func(m provider.Message) bool {
		return p.toolID(m.ToolCallID) != m.ToolCallID || slices.ContainsFunc(m.ToolCalls, func(call provider.ToolCall) bool {
			return p.toolID(call.ID) != call.ID || !bytes.Equal(p.extra(call.Extra), call.Extra)
		}) || p.traits.strict && m.Reasoning != "" || p.traits.needsThoughts && len(m.ToolCalls) > 0
	})
}

// repaired returns a conversation with IDs of calls that the server accepts, without state of other vendors, and with
// reasoning for calls if the server demands it. The rest stays byte for byte.
func (p *Provider) repaired(messages gjson.Result) string {
	edit, list := wire.NewEditor(messages)
	each(list, func(message gjson.Result) {
		thought, held := p.missingThought(message)
		edit.Members(message, func(name string, value gjson.Result) bool {
			switch {
			case thought == "":
			case held && name == p.traits.thoughts:
				edit.Replace(value, thought)
			case !held && name == "role":
				edit.Replace(value, value.Raw+`,"`+p.traits.thoughts+`":`+thought)
			}
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

// missingThought returns the reasoning to add to a turn, as JSON, if the server refuses the turn's calls without it:
// the text that another server wrote, or else a blank. It returns "" for a turn that lacks none. held reports whether
// the turn has the server's member, without a text.
func (p *Provider) missingThought(message gjson.Result) (thought string, held bool) {
	if !p.traits.needsThoughts || message.Get("role").Str != string(provider.RoleAssistant) {
		return "", false
	}
	calls, own := message.Get("tool_calls"), message.Get(p.traits.thoughts)
	if !calls.Get("0").Exists() || own.Str != "" {
		return "", false
	}
	text := message.Get(memberReasoning).Str
	each(calls, func(call gjson.Result) {
		if kept, ok := ThoughtOf(json.RawMessage(call.Get("extra_content").Raw)); ok {
			text = cmp.Or(text, kept.Text)
		}
	})
	return string(jsontext.AppendText(nil, cmp.Or(text, " "))), own.Exists()
}

// Omitted implements provider.Omitter: a strict server gets no reasoning of earlier turns.
func (p *Provider) Omitted(chat *provider.Chat) (names []string) {
	reasoned := func(m provider.Message) bool { return m.Reasoning != "" }
	if chat.Native.Dialect != DialectName || !p.traits.strict || !slices.ContainsFunc(chat.Messages, reasoned) {
		return nil
	}
	each(wire.ParseView(chat.Native.Body).Get("messages"), func(message gjson.Result) {
		for _, name := range []string{memberReasoningContent, memberReasoning, memberDetails} {
			if message.Get(name).Type != gjson.Null && !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	})
	return names
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
		edit.Replace(id, `"`+fit+`"`) // Letters, digits and '_'.
	}
}
