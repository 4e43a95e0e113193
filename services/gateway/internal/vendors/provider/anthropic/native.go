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
// would refuse. Thinking is asked for in the form that the model accepts. It is switched off where the vendor would refuse
// it: with a setting that excludes it, or because another vendor made the last calls without. The rest stays byte for byte.
func Relay(chat *provider.Chat, members ...wire.Member) (json.RawMessage, error) {
	body := chat.Native.Body
	if !jsoncheck.Valid(body) || !wire.ParseView(body).IsObject() {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the request is not a JSON object"}
	}
	own := membersOf(wire.ParseView(body))
	if own.messages.Exists() {
		text := own.messages.Raw
		if bytes.Contains(body, ownSignature) {
			text = withoutOwn(own.messages)
		}
		if needsRepair(chat) {
			text = repaired(gjson.Parse(text))
		}
		if text != own.messages.Raw {
			members = append(members, wire.Member{Name: "messages", Value: text})
		}
	}
	adapted, _ := own.adapt(chat)
	return wire.Override(body, append(members, adapted...)...), nil
}

// Omitted returns the names of the fields that Relay leaves out.
func Omitted(chat *provider.Chat) []string {
	_, lost := membersOf(wire.ParseView(chat.Native.Body)).adapt(chat)
	return lost
}

var ownSignature = []byte(`"` + OwnSignature + `"`)
