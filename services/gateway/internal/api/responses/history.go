package responses

import (
	"bytes"
	"encoding/json"
	"slices"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/api/dialect"
	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/platform/apierr"
)

// Record is a stored response: the items that it answered, a JSON array, and the response object.
type Record struct{ Input, Response json.RawMessage }

// History finds what a request refers to: the conversation that it continues, oldest turn first, and items by their ids.
type History interface {
	// Chain returns a response with all that precede it.
	Chain(id string) ([]Record, error)
	// Items returns the stored items of some ids, as far as there are any.
	Items(ids []string) (map[string]json.RawMessage, error)
}

// history completes the input with the conversation that it continues, and with the items that it names by their ids.
func (r *reader) history(from History) error {
	own, err := r.ownItems()
	if err != nil || own == nil {
		return err
	}
	references := idsOf(own)
	previous := r.exchange.echo.PreviousResponseID
	if previous == nil && len(references) == 0 {
		r.list = own
		return nil
	}
	if from == nil {
		return notFound(previous, own)
	}
	var before []json.RawMessage
	if previous != nil {
		turns, err := from.Chain(*previous)
		if err != nil {
			return err
		}
		before = itemsOf(turns)
	}
	if own, err = resolve(own, before, references, from); err != nil {
		return err
	}
	r.before, r.list, r.completed = len(before), slices.Concat(before, own), true
	return nil
}

// ownItems returns the items of the request itself; nil for an input that the reader refuses.
func (r *reader) ownItems() ([]json.RawMessage, error) {
	raw := r.Raw("input")
	switch {
	case raw == nil && r.exchange.echo.PreviousResponseID != nil:
		return []json.RawMessage{}, nil
	case raw == nil:
		return nil, nil
	case raw[0] == '"':
		return []json.RawMessage{slices.Concat([]byte(`{"type":"message","role":"user","content":`), raw, []byte{'}'})}, nil
	}
	list, err := dialect.Elements("input", raw)
	if err != nil {
		return nil, apierr.Invalid("input", "must be a string or an array of items")
	}
	return append([]json.RawMessage{}, list...), nil
}

// reference returns the id of an item that only refers to another one.
func reference(item json.RawMessage) (id string, ok bool) {
	parsed := gjson.ParseBytes(item)
	kind := parsed.Get("type").Str
	if kind != "item_reference" && (kind != "" || parsed.Get("role").Exists()) {
		return "", false
	}
	id = parsed.Get("id").Str
	return id, id != ""
}

// idsOf returns the ids of the items that some items refer to.
func idsOf(items []json.RawMessage) (ids []string) {
	for _, item := range items {
		if id, ok := reference(item); ok {
			ids = append(ids, id)
		}
	}
	return ids
}

// itemsOf returns the items of turns in their order.
func itemsOf(turns []Record) (items []json.RawMessage) {
	for _, turn := range turns {
		for _, list := range []gjson.Result{gjson.ParseBytes(turn.Input), gjson.GetBytes(turn.Response, "output")} {
			list.ForEach(func(_, item gjson.Result) bool {
				items = append(items, json.RawMessage(item.Raw))
				return true
			})
		}
	}
	return items
}

// resolve replaces references by the items that they name: those of the conversation, or stored ones.
func resolve(own, before []json.RawMessage, references []string, from History) ([]json.RawMessage, error) {
	if len(references) == 0 {
		return own, nil
	}
	known := make(map[string]json.RawMessage, len(before))
	for _, item := range before {
		known[gjson.GetBytes(item, "id").Str] = item
	}
	found, err := from.Items(references)
	if err != nil {
		return nil, err
	}
	resolved := slices.Clone(own)
	for i, item := range own {
		id, ok := reference(item)
		if !ok {
			continue
		}
		switch {
		case known[id] != nil:
			resolved[i] = known[id]
		case found[id] != nil:
			resolved[i] = found[id]
		default:
			return nil, itemNotFound(i)
		}
	}
	return resolved, nil
}

// notFound returns the error of a reference where nothing is stored.
func notFound(previous *string, own []json.RawMessage) error {
	if previous != nil {
		return PreviousNotFound()
	}
	return itemNotFound(slices.IndexFunc(own, func(item json.RawMessage) bool {
		_, ok := reference(item)
		return ok
	}))
}

// ReasonPreviousNotFound is the code by which clients recognize that they have to send the whole conversation.
const ReasonPreviousNotFound apierr.Reason = "previous_response_not_found"

// PreviousNotFound returns the error of a previous response that is not stored.
func PreviousNotFound() error {
	return apierr.New(apierr.KindInvalid, ReasonPreviousNotFound, "previous_response_id: no such response is stored")
}

func itemNotFound(i int) error {
	return apierr.New(apierr.KindNotFound, "item_not_found",
		dialect.At("input", i)+".id: no such item is stored; items of responses with store false are not kept")
}

// complete returns the body with the whole input, if it was completed. It refers to nothing any more, so that it can be
// sent again later.
func (r *reader) complete(body []byte) ([]byte, error) {
	if !r.completed {
		return body, nil
	}
	whole, err := sjson.DeleteBytes(bytes.Clone(body), "previous_response_id")
	if err != nil {
		return nil, err
	}
	return sjson.SetRawBytes(whole, "input", joined(r.list))
}

// joined returns items as a JSON array.
func joined(items []json.RawMessage) json.RawMessage {
	return slices.Concat([]byte{'['}, bytes.Join(asBytes(items), []byte{','}), []byte{']'})
}

func asBytes(items []json.RawMessage) [][]byte {
	out := make([][]byte, len(items))
	for i, item := range items {
		out[i] = item
	}
	return out
}

// Input returns the request's own items as they are stored, each with an id: a JSON array. The items of the
// conversation before it are not among them.
func (x *Exchange) Input() json.RawMessage { return joined(x.identified()) }

// identified returns the own items, each with an id.
func (x *Exchange) identified() []json.RawMessage {
	for i, item := range x.own {
		x.own[i] = withID(item)
	}
	return x.own
}

// withID returns an item with an id, unless it has one.
func withID(item json.RawMessage) json.RawMessage {
	if gjson.GetBytes(item, "id").Str != "" {
		return item
	}
	id := jsontext.AppendText(nil, newID(prefixOf(gjson.GetBytes(item, "type").Str)))
	with, err := sjson.SetRawBytes(bytes.Clone(item), "id", id)
	if err != nil {
		return item
	}
	return with
}

// prefixOf returns the prefix of the ids of items of a type.
func prefixOf(kind string) string {
	switch kind {
	case typeFunctionCall:
		return "fc"
	case "function_call_output":
		return "fco"
	case typeCustomCall:
		return "ctc"
	case "custom_tool_call_output":
		return "ctco"
	case typeReasoning:
		return "rs"
	case typeMessage, "":
		return "msg"
	}
	return "item"
}

// ItemIDs returns the ids of the items of a turn.
func ItemIDs(t Record) (ids []string) {
	for _, item := range itemsOf([]Record{t}) {
		if id := gjson.GetBytes(item, "id").Str; id != "" && len(id) <= maxItemID {
			ids = append(ids, id)
		}
	}
	return ids
}

// maxItemID bounds the ids by which items are found again, in bytes.
const maxItemID = 128

// FindItems returns the items of turns that have some ids.
func FindItems(turns []Record, ids []string) map[string]json.RawMessage {
	found := make(map[string]json.RawMessage, len(ids))
	wanted := make(map[string]bool, len(ids))
	for _, id := range ids {
		wanted[id] = true
	}
	for _, item := range itemsOf(turns) {
		if id := gjson.GetBytes(item, "id").Str; wanted[id] && found[id] == nil {
			found[id] = item
		}
	}
	return found
}
