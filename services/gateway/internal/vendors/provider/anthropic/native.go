package anthropic

import (
	"encoding/json"
	"strconv"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/jsoncheck"
)

// relay is the caller's body with the candidate's model, streamed or not as the
// call is, and without what the vendor would refuse of calls that another one made;
// all else stays byte for byte.
func relay(chat *provider.Chat, stream bool) (json.RawMessage, error) {
	body := chat.Native.Body
	if !jsoncheck.Valid(body) || !wire.ParseView(body).IsObject() {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "the request is not a JSON object"}
	}
	model, err := json.Marshal(chat.Model)
	if err != nil {
		return nil, &provider.Error{Class: apierr.ClassPolicy, Text: "model: can't be put into JSON", Cause: err}
	}
	members := []wire.Member{{Name: "model", Value: string(model)}, {Name: "stream", Value: strconv.FormatBool(stream)}}
	if messages := wire.ParseView(body).Get("messages"); messages.Exists() && mends(chat) {
		members = append(members, wire.Member{Name: "messages", Value: mended(messages)})
	}
	return wire.Override(body, members...), nil
}
