package anthropic

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// A turn that calls tools must come back with the thinking that led to it,
// signed by the vendor and unchanged. It travels as the opaque state of the call
// that it came before, under the dialect's name, so that other vendors leave it out:
//
//	{"anthropic": {"lead": [block, …], "before": [block, …]}}
//
// lead is what came before any text of the turn, before what came after some.
type thinking struct {
	Lead   []json.RawMessage `json:"lead,omitempty"`
	Before []json.RawMessage `json:"before,omitempty"`
}

// isThinking names the blocks that are kept.
func isThinking(kind string) bool { return kind == "thinking" || kind == "redacted_thinking" }

// add keeps a block; spoken tells that text or a call came before it in its turn.
func (t *thinking) add(block json.RawMessage, spoken bool) {
	if spoken {
		t.Before = append(t.Before, block)
		return
	}
	t.Lead = append(t.Lead, block)
}

// take gives what was kept as the state of the call that comes now, or nil.
func (t *thinking) take() json.RawMessage {
	if t.Lead == nil && t.Before == nil {
		return nil
	}
	state, err := json.Marshal(map[string]thinking{DialectName: *t})
	*t = thinking{}
	if err != nil {
		return nil // Blocks were read from valid JSON; that can't fail.
	}
	return state
}

// signed is a block whole: of a thinking block, a stream gives text and signature
// in pieces.
func signed(block gjson.Result, text, signature string) json.RawMessage {
	if block.Get("type").Str != "thinking" {
		return wire.Bytes(block)
	}
	return wire.Override([]byte(block.Raw), wire.Member{Name: "type", Value: `"thinking"`},
		wire.Member{Name: "thinking", Value: quote(text)}, wire.Member{Name: "signature", Value: quote(signature)})
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // A string always does.
	return string(quoted)
}

// thinkingOf reads the state that a call brings back; another vendor's is none.
func thinkingOf(call provider.ToolCall) (thinking, error) {
	if len(call.Extra) == 0 {
		return thinking{}, nil
	}
	var state struct {
		Anthropic thinking `json:"anthropic"`
	}
	if err := json.Unmarshal(call.Extra, &state); err != nil {
		return thinking{}, &provider.Error{Class: apierr.ClassPolicy, Text: "tool_calls: the extra content of the function " + screen.Quote(call.Name) + " is not what the provider gave", Cause: err}
	}
	return state.Anthropic, nil
}
