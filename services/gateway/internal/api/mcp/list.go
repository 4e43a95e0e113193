package mcp

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolcall"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Bounds of a page. A tool is a few hundred bytes, at most 64 KiB.
const (
	pageTools = 500
	pageBytes = 1 << 20
)

// metaUnavailable is the member of _meta that names the servers whose tools are missing in a list.
const metaUnavailable = "dev.switchyard/unavailable"

type toolList struct {
	lasting

	Tools []json.RawMessage   `json:"tools"`
	Next  string              `json:"nextCursor,omitempty"`
	Meta  map[string][]string `json:"_meta,omitempty"`
}

// list answers tools/list with one page.
func (x *exchange) list(ctx context.Context) {
	after, ok := readCursor(x.cursor, maxName)
	if !ok {
		x.fail(&wire.Error{Code: wire.CodeInvalidParams, Message: "params.cursor: must be the nextCursor of a page"}, http.StatusBadRequest)
		return
	}
	all, err := x.handler.Tools.List(ctx, x.asker, x.server)
	if err != nil {
		x.refuse(err)
		return
	}
	list := toolList{Tools: []json.RawMessage{}}
	if x.modern {
		list.lasting = passing()
	}
	if len(all.Unavailable) > 0 {
		list.Meta = map[string][]string{metaUnavailable: all.Unavailable}
	}
	page, more := pageAfter(all.Tools, after, textOfTool)
	for _, tool := range page {
		list.Tools = append(list.Tools, renamed(tool.Definition, tool.Name))
	}
	if more {
		list.Next = cursorAfter(page[len(page)-1].Name)
	}
	x.result(list)
}

func textOfTool(t *toolcall.Tool) (name string, text []byte) { return t.Name, t.Definition }

// pageAfter returns the items behind a name that fit on a page, and whether there are more. of returns the name of an item,
// in whose order they are, and its text.
func pageAfter[T any](items []T, after string, of func(item *T) (name string, text []byte)) (page []T, more bool) {
	from, found := slices.BinarySearchFunc(items, after, func(item T, after string) int {
		name, _ := of(&item)
		return strings.Compare(name, after)
	})
	if found {
		from++
	}
	items = items[from:]
	size := 0
	for i := range items {
		_, text := of(&items[i])
		if size += len(text); i == pageTools || i > 0 && size > pageBytes {
			return items[:i], true
		}
	}
	return items, false
}

// cursorPrefix is the version of cursors.
const cursorPrefix = "1:"

// cursorAfter returns the cursor behind a tool. It says nothing that the list didn't.
func cursorAfter(name string) string {
	return base64.RawURLEncoding.EncodeToString([]byte(cursorPrefix + name))
}

// readCursor returns the name in a cursor, which has about most bytes; empty for no cursor.
func readCursor(cursor string, most int) (name string, ok bool) {
	if cursor == "" {
		return "", true
	}
	text, err := base64.RawURLEncoding.Strict().DecodeString(cursor)
	name, ok = strings.CutPrefix(string(text), cursorPrefix)
	return name, err == nil && ok && name != "" && len(cursor) <= 2*most
}

// renamed returns a definition with another name of its tool. The rest is as the server wrote it.
func renamed(definition json.RawMessage, name string) json.RawMessage {
	out := make([]byte, 0, len(definition)+len(name))
	out = append(out, '{')
	wire.Members(definition, func(member string, value []byte) bool {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(jsontext.AppendText(out, member), ':')
		if member == "name" {
			out = jsontext.AppendText(out, name)
		} else {
			out = append(out, value...)
		}
		return true
	})
	return append(out, '}')
}
