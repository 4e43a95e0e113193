package responses

import (
	"encoding/json"
	"net/url"
	"slices"
	"strconv"

	"github.com/tidwall/gjson"

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
	if n := len(page.Data); n > 0 {
		page.FirstID, page.LastID = new(gjson.GetBytes(page.Data[0], "id").Str), new(gjson.GetBytes(page.Data[n-1], "id").Str)
	} else {
		page.Data = []json.RawMessage{}
	}
	return page, nil
}
