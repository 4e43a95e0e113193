package anthropic

import (
	"bytes"
	"encoding/json"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// Relay returns the caller's body with some members set, and without the parts of other vendors' turns that the vendor
// would refuse. Thinking is switched off where the vendor would refuse it: with a setting that excludes it, or because
// another vendor made the last calls without. The rest stays byte for byte.
func Relay(chat *provider.Chat, members ...wire.Member) (json.RawMessage, error) {
	body := chat.Native.Body
	if !jsoncheck.Valid(body) || !wire.ParseView(body).IsObject() {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the request is not a JSON object"}
	}
	root := wire.ParseView(body)
	if messages := root.Get("messages"); messages.Exists() {
		text := messages.Raw
		if bytes.Contains(body, ownSignature) {
			text = withoutOwn(messages)
		}
		if needsRepair(chat) {
			text = repaired(gjson.Parse(text))
		}
		if text != messages.Raw {
			members = append(members, wire.Member{Name: "messages", Value: text})
		}
	}
	if omitsThinking(chat, root) {
		members = append(members, wire.Member{Name: "thinking", Value: thinkingOff})
	}
	return wire.Override(body, members...), nil
}

// thinkingOff is the value of the member thinking that switches it off.
const thinkingOff = `{"type":"disabled"}`

// omitsThinking reports whether a body asks for thinking that the vendor would refuse.
func omitsThinking(chat *provider.Chat, body gjson.Result) bool {
	if obstacleTo(chat) == "" {
		return false
	}
	thinking := body.Get("thinking")
	return thinking.IsObject() && thinking.Get("type").Str != "disabled"
}

// Omitted returns the names of the fields that Relay leaves out.
func Omitted(chat *provider.Chat) []string {
	if omitsThinking(chat, wire.ParseView(chat.Native.Body)) {
		return []string{"thinking"}
	}
	return nil
}

var ownSignature = []byte(`"` + OwnSignature + `"`)
