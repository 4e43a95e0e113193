package anthropic

import (
	"encoding/json"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/screen"
)

// Thinking is the thinking that led to a tool call. A turn that calls tools must be sent back with it, signed by the
// vendor and unchanged. It is transported as the opaque state of the call that follows it, under the dialect's name, so
// that other vendors leave it out:
//
//	{"anthropic": {"lead": [block, …], "before": [block, …]}}
//
// lead came before any text of the turn, before came after some text.
type Thinking struct {
	Lead   []json.RawMessage `json:"lead,omitempty"`
	Before []json.RawMessage `json:"before,omitempty"`
}

// OwnSignature signs thinking of other vendors, which callers of this dialect are shown. The vendor would refuse it, so
// that it is never sent.
const OwnSignature = "switchyard"

// isThinking reports whether blocks of a type are kept.
func isThinking(kind string) bool { return kind == "thinking" || kind == "redacted_thinking" }

// Add keeps a block. afterContent reports whether text or a call came before it in its turn.
func (t *Thinking) Add(block json.RawMessage, afterContent bool) {
	if afterContent {
		t.Before = append(t.Before, block)
		return
	}
	t.Lead = append(t.Lead, block)
}

// Take returns the kept blocks as the state of the next call, or nil, and forgets them.
func (t *Thinking) Take() json.RawMessage {
	if t.Lead == nil && t.Before == nil {
		return nil
	}
	state, err := json.Marshal(map[string]Thinking{DialectName: *t})
	*t = Thinking{}
	if err != nil {
		return nil // Blocks were read from valid JSON; that can't fail.
	}
	return state
}

// signed returns a whole block: a stream delivers text and signature of a thinking block in pieces.
func signed(block gjson.Result, text, signature string) json.RawMessage {
	if block.Get("type").Str != "thinking" {
		return wire.Bytes(block)
	}
	return wire.Override([]byte(block.Raw), wire.Member{Name: "type", Value: `"thinking"`},
		wire.Member{Name: "thinking", Value: quote(text)}, wire.Member{Name: "signature", Value: quote(signature)})
}

func quote(text string) string {
	quoted, _ := json.Marshal(text) // A string never fails.
	return string(quoted)
}

// ThinkingOf parses the state of a call; the state of another vendor is empty.
func ThinkingOf(call provider.ToolCall) (Thinking, error) {
	if len(call.Extra) == 0 {
		return Thinking{}, nil
	}
	var state struct {
		Anthropic Thinking `json:"anthropic"`
	}
	if err := json.Unmarshal(call.Extra, &state); err != nil {
		return Thinking{}, &provider.Error{Class: apierr.ClassPolicy, Text: "tool_calls: the extra content of the function " + screen.Quote(call.Name) + " is not what the provider gave", Cause: err}
	}
	return state.Anthropic, nil
}
