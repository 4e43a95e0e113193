package anthropic

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// countTokens is the path of the count, below that of messages. Source: Anthropic API reference, "Count Message tokens".
const countTokens = "count_tokens"

// uncounted are the members of a message that the count refuses.
var uncounted = []string{"stream", "max_tokens", "metadata", "temperature", "top_p", "top_k", "stop_sequences", "service_tier"}

// CountTokens implements provider.TokenCounter for the caller's own body.
func (p *Provider) CountTokens(ctx context.Context, credential provider.Credential, chat *provider.Chat) (int64, error) {
	if !native(chat) {
		return 0, provider.Unsupported("messages", "are not in the vendor's own form")
	}
	members := []wire.Member{{Name: "model", Value: quote(chat.Model)}}
	if p.host.Version != "" {
		members = append(members, wire.Member{Name: "anthropic_version", Value: quote(p.host.Version)})
	}
	body, err := Relay(chat, members...)
	if err != nil {
		return 0, err
	}
	caller := p.caller.With(credential)
	response, err := caller.Post(ctx, p.host.Count(), p.host.header(chat.Native), countable(body)) //nolint:bodyclose // read closes it.
	if err != nil {
		return 0, err
	}
	_, root, err := read(ctx, caller, response)
	if err != nil {
		return 0, err
	}
	tokens, ok := wire.Tokens(root.Get("input_tokens"))
	if !ok {
		return 0, wire.Malformed("the answer holds no count", nil)
	}
	return tokens, nil
}

// countable returns a message's body without the members that the count refuses.
func countable(body json.RawMessage) json.RawMessage {
	edit, root := wire.NewEditor(gjson.ParseBytes(body))
	edit.Members(root, func(name string, _ gjson.Result) bool { return slices.Contains(uncounted, name) })
	return json.RawMessage(edit.End())
}
