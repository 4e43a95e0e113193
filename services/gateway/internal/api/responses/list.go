package responses

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"

	"switchyard.dev/services/gateway/internal/content/redact"
	"switchyard.dev/services/platform/apierr"
)

// List is a page of items.
type List struct {
	Object  string            `json:"object"`
	Data    []json.RawMessage `json:"data"`
	HasMore bool              `json:"has_more"`
	FirstID *string           `json:"first_id"`
	LastID  *string           `json:"last_id"`
}

// Bounds of a page.
const (
	defaultPage = 20
	maxPage     = 100
)

// InputItems returns a page of the items that a response answered: those of the turns before it, and its own input. The
// query has limit, order ("desc", the default, or "asc") and after, the id of the last item of the page before.
func InputItems(turns []Record, query url.Values) (*List, error) {
	limit, order := defaultPage, "desc"
	if text := query.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 || n > maxPage {
			return nil, apierr.Invalid("limit", "must be a whole number from 1 to 100")
		}
		limit = n
	}
	if text := query.Get("order"); text != "" {
		if text != "asc" && text != "desc" {
			return nil, apierr.Invalid("order", "must be asc or desc")
		}
		order = text
	}
	last := turns[len(turns)-1]
	items := append(itemsOf(turns[:len(turns)-1]), itemsOf([]Record{{Input: last.Input}})...)
	if order == "desc" {
		slices.Reverse(items)
	}
	if after := query.Get("after"); after != "" {
		i := slices.IndexFunc(items, func(item json.RawMessage) bool { return gjson.GetBytes(item, "id").Str == after })
		if i < 0 {
			return nil, apierr.Invalid("after", "must be the id of an item of the list")
		}
		items = items[i+1:]
	}
	page := &List{Object: "list", Data: items[:min(len(items), limit)], HasMore: len(items) > limit}
	for i, item := range page.Data {
		page.Data[i] = shown(item)
	}
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = new(gjson.GetBytes(page.Data[0], "id").Str), new(gjson.GetBytes(page.Data[n-1], "id").Str)
	} else {
		page.Data = []json.RawMessage{}
	}
	return page, nil
}

// shown returns an item of a request as the API shows it: that of a message has its type, its status, and its content as a list
// of parts, however the caller wrote it. Items that bring tools lose the credentials of the tools' servers. Other items
// stay as they are. Source: OpenAI API reference, "List input items".
func shown(item json.RawMessage) json.RawMessage {
	if tools := gjson.GetBytes(item, "tools"); tools.IsArray() {
		if without, err := sjson.SetRawBytes(item, "tools", redact.ServerCredentials([]byte(tools.Raw))); err == nil {
			item = without
		}
	}
	message := gjson.ParseBytes(item)
	if kind := message.Get("type").Str; kind != typeMessage && kind != "" || !message.Get("role").Exists() {
		return item
	}
	out := item
	set := func(name, raw string) {
		if with, err := sjson.SetRawBytes(out, name, []byte(raw)); err == nil {
			out = with
		}
	}
	if !message.Get("type").Exists() {
		set("type", `"`+typeMessage+`"`)
	}
	if !message.Get("status").Exists() {
		set("status", `"`+statusCompleted+`"`)
	}
	switch content := message.Get("content"); {
	case content.Type != gjson.String:
	case message.Get("role").Str == "assistant":
		set("content", `[{"type":"output_text","text":`+content.Raw+`,"annotations":[]}]`)
	default:
		set("content", `[{"type":"input_text","text":`+content.Raw+`}]`)
	}
	return out
}
