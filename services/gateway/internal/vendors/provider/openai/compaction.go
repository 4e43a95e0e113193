package openai

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"

	"github.com/klauspost/compress/s2"
	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// CompactionName is the name of the form of a request to shorten a conversation, which servers with the Responses API may
// take. Source: OpenAI API reference, "Compact a response".
const CompactionName = "responses_compaction"

const compactions = responses + "/compact"

// compacting are the members of a request to shorten a conversation.
var compacting = []string{
	"model", "input", "instructions", "prompt_cache_key", "prompt_cache_options", "prompt_cache_retention", "service_tier",
}

func (p *Provider) isCompaction(chat *provider.Chat) bool {
	return p.traits.responses && chat.Native != nil && chat.Native.Dialect == CompactionName
}

// compact requests a vendor's own compaction. The items that it stands for go with it, so that the conversation can go on
// at another vendor.
func (p *Provider) compact(ctx context.Context, credential provider.Credential, chat *provider.Chat) (*provider.Answer, error) {
	at := p.placeOf(credential)
	body, err := p.relayResponses(chat, at, false)
	if err != nil {
		return nil, err
	}
	caller := p.caller.With(credential)
	response, err := p.post(ctx, caller, compactions, chat.Model, header(chat.Native), only(body, compacting)) //nolint:bodyclose // wire.Read closes it.
	if err != nil {
		return nil, err
	}
	text, err := wire.Read(ctx, response)
	if err != nil {
		return nil, err
	}
	answer, err := responseOf(caller, response.StatusCode, text)
	if err != nil {
		return nil, err
	}
	answer.Limits, answer.Native = caller.Limits(response), at.sealAll(text, "output", behind(gjson.GetBytes(chat.Native.Body, "input")))
	return answer, nil
}

// lacksPath reports whether a server that has the Responses API does not have a part of it.
func lacksPath(err error) bool {
	var e *provider.Error
	return errors.As(err, &e) && (e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed || e.Status == http.StatusNotImplemented)
}

// only returns an object with some of its members.
func only(object json.RawMessage, names []string) json.RawMessage {
	edit, root := wire.NewEditor(gjson.ParseBytes(object))
	edit.Members(root, func(name string, _ gjson.Result) bool { return !slices.Contains(names, name) })
	return json.RawMessage(edit.End())
}

// behind returns the items of an input, compressed, with those behind earlier compactions in their places; nil for more
// than MaxBehind.
func behind(input gjson.Result) []byte {
	out := []byte{'['}
	add := func(item gjson.Result) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, item.Raw...)
	}
	each(input, func(item gjson.Result) {
		if len(out) > MaxBehind {
			return
		}
		if item.Get("type").Str == typeCompaction {
			if sealed, ok := OpenSealed(item.Get("encrypted_content").Str); ok {
				if items, ok := sealed.Behind(); ok {
					each(gjson.ParseBytes(items), add)
					return
				}
			}
		}
		add(item)
	})
	if out = append(out, ']'); len(out) > MaxBehind {
		return nil
	}
	return s2.Encode(nil, out)
}
