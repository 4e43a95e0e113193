package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Offer is a list of what a server offers beside its tools.
type Offer string

// The lists.
const (
	Resources Offer = wire.MethodListResources
	Templates Offer = wire.MethodListTemplates
	Prompts   Offer = wire.MethodListPrompts
)

// shape returns the member of a page that has the items, and the member of an item that identifies it.
func (o Offer) shape() (list, key string) {
	switch o {
	case Resources:
		return "resources", "uri"
	case Templates:
		return "resourceTemplates", "uriTemplate"
	case Prompts:
	}
	return "prompts", "name"
}

// Item is a resource, a template of resources, or a prompt.
type Item struct {
	// Key is the URI, the template of URIs or the name.
	Key string
	// Text is the whole item as the server sent it, with members that the gateway doesn't know.
	Text json.RawMessage
}

// Bounds of items: how many a server lists of one kind, and the length of a URI in bytes.
const (
	MaxItems = 1000
	MaxURI   = 2048
)

// Errors of lists.
var (
	errItems  = &Error{Cause: CauseTooLarge, Text: "the server lists more than 1000 items", Sent: true}
	errItem   = &Error{Cause: CauseTooLarge, Text: "the server lists an item of more than 64 KiB", Sent: true}
	errNoList = protocol("the server's answer has no list of items")
	errKey    = protocol("the server lists an item without a URI or name that can be used")
	errSame   = protocol("the server lists two items of one URI or name")
)

// Offered returns all that a server offers an organization of one kind, in the server's order, each key once. The errors
// are those of Call.
func (c *Client) Offered(ctx context.Context, server *toolserver.Server, organization string, of Offer) ([]Item, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	p, err := c.peer(ctx, server, organization, nil)
	if err != nil {
		return nil, err
	}
	l := offers{of: of, pages: newPages(), keys: make(map[string]bool)}
	for range maxPages {
		_, got, err := c.do(ctx, p, func() *conversation { return nil }, func(s *session) (*request, error) {
			return c.newRequest(s, string(of), l.params(), about{}), nil
		})
		if err != nil {
			return nil, err
		}
		if err := l.page(got.result); err != nil {
			return nil, err
		}
		if l.cursor == "" {
			return l.items, nil
		}
	}
	return nil, errPages
}

// offers reads the pages of a list.
type offers struct {
	pages

	of    Offer
	items []Item
	size  int
	keys  map[string]bool
}

// page reads a page.
func (l *offers) page(result json.RawMessage) error {
	list, _ := l.of.shape()
	var items, cursor json.RawMessage
	wire.Members(result, func(name string, value []byte) bool {
		switch name {
		case list:
			items = value
		case "nextCursor":
			cursor = value
		}
		return true
	})
	var failure error
	if !wire.Elements(items, func(value []byte) bool {
		failure = l.item(value)
		return failure == nil
	}) {
		return errNoList
	}
	if failure != nil {
		return failure
	}
	return l.next(cursor)
}

// item reads an item.
func (l *offers) item(text []byte) error {
	_, key := l.of.shape()
	var named string
	wire.Members(text, func(name string, value []byte) bool {
		if name == key {
			named, _ = wire.Text(value)
		}
		return named == ""
	})
	l.size += len(text)
	switch {
	case !l.of.usable(named):
		return errKey
	case l.keys[named]:
		return errSame
	case len(l.keys) == MaxItems:
		return errItems
	case len(text) > MaxDefinition:
		return errItem
	case l.size > maxListing:
		return errListing
	}
	l.keys[named] = true
	l.items = append(l.items, Item{named, slices.Clone(text)})
	return nil
}

// usable reports whether a text may be a key: a name of a prompt, or a URI without characters that are not seen.
func (o Offer) usable(key string) bool {
	if o == Prompts {
		return key != "" && len(key) <= maxToolName
	}
	return IsURI(key)
}

// IsURI reports whether a text may be the URI of a resource, or a template of one: 1 to 2048 bytes without controls and
// spaces.
func IsURI(text string) bool {
	return text != "" && len(text) <= MaxURI && strings.IndexFunc(text, func(r rune) bool { return r <= ' ' || r == 0x7f }) < 0
}
