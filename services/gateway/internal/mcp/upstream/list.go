package upstream

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Bounds of a listing.
const (
	// MaxTools bounds the tools of a server, MaxDefinition one definition and maxListing all of them, in bytes.
	MaxTools      = 1000
	MaxDefinition = 64 << 10
	maxListing    = 4 << 20
	maxPages      = 100
	maxCursor     = 4 << 10
	maxToolName   = 128
	maxTTL        = 24 * time.Hour
)

// Tool is a tool as its server defines it.
type Tool struct {
	// Name is the server's own name: 1 to 128 bytes.
	Name string
	// Text is the whole definition as the server sent it, with members that the gateway doesn't know.
	Text json.RawMessage
}

// Omitted is a tool that was left out of a listing, for its definition can't be used.
type Omitted struct {
	// Name is the server's own name of the tool.
	Name, Reason string
}

// Listing is what a server offers.
type Listing struct {
	About
	// Tools are in the server's order, each name once.
	Tools   []Tool
	Omitted []Omitted
	// TTL is for how long the server says that the listing holds; 0 where it doesn't say.
	TTL time.Duration
}

// Errors of listings.
var (
	errTools    = &Error{Cause: CauseTooLarge, Text: "the server lists more than 1000 tools", Sent: true}
	errListing  = &Error{Cause: CauseTooLarge, Text: "the server's listing is larger than 4 MiB", Sent: true}
	errPages    = &Error{Cause: CauseTooLarge, Text: "the server's listing has more than 100 pages", Sent: true}
	errCursor   = protocol("the server's listing has a cursor that is no string of at most 4096 bytes")
	errLoop     = protocol("the server's listing leads back to a page that was read")
	errNoTools  = protocol("the server's listing has no list of tools")
	errToolName = protocol("the server lists a tool without a name of 1 to 128 bytes")
	errTwice    = protocol("the server lists two tools of one name")
)

// everything is what any client can do. Servers define some tools only for clients that can answer them; a listing is for
// all callers, and what one of them can do is shown in its own calls.
var everything = json.RawMessage(`{"elicitation":{"form":{},"url":{}},"sampling":{"tools":{}},"roots":{}}`)

// List returns all tools of a server, whatever they need of their caller. The errors are those of Call.
func (c *Client) List(ctx context.Context, server *toolserver.Server) (Listing, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	p, err := c.peer(ctx, server, "", everything)
	if err != nil {
		return Listing{}, err
	}
	l := lister{names: make(map[string]bool), pages: newPages()}
	for range maxPages {
		s, got, err := c.do(ctx, p, func() *conversation { return nil }, func(s *session) (*request, error) {
			return c.newRequest(s, wire.MethodListTools, l.params(), about{capabilities: everything}), nil
		})
		if err != nil {
			return Listing{}, err
		}
		if err := l.page(got.result); err != nil {
			return Listing{}, err
		}
		if l.About = s.about; l.cursor == "" {
			return l.Listing, nil
		}
	}
	return Listing{}, errPages
}

// lister reads the pages of a listing.
type lister struct {
	Listing
	pages

	size  int
	names map[string]bool
}

// pages follows the pages of a listing.
type pages struct {
	// cursor is that of the next page; empty for the first, and behind the last.
	cursor string
	seen   map[string]bool
}

func newPages() pages { return pages{seen: make(map[string]bool)} }

// params returns the parameters of the request for the next page.
func (p *pages) params() (params object) {
	params.addText("cursor", p.cursor)
	return params
}

// page reads a page. The cursor of the next one is empty at the end.
func (l *lister) page(result json.RawMessage) error {
	var tools, cursor json.RawMessage
	wire.Members(result, func(name string, value []byte) bool {
		switch name {
		case "tools":
			tools = value
		case "nextCursor":
			cursor = value
		case "ttlMs":
			if ms, err := strconv.ParseInt(string(value), 10, 64); err == nil && ms > 0 {
				l.TTL = time.Duration(min(ms, maxTTL.Milliseconds())) * time.Millisecond
			}
		}
		return true
	})
	var failure error
	if !wire.Elements(tools, func(value []byte) bool {
		failure = l.tool(value)
		return failure == nil
	}) {
		return errNoTools
	}
	if failure != nil {
		return failure
	}
	return l.next(cursor)
}

// next takes the cursor of the next page.
func (p *pages) next(cursor json.RawMessage) error {
	if p.cursor = ""; cursor == nil || string(cursor) == "null" {
		return nil
	}
	text, ok := wire.Text(cursor)
	switch {
	case !ok || len(text) > maxCursor:
		return errCursor
	case p.seen[text]:
		return errLoop
	}
	p.cursor, p.seen[text] = text, true
	return nil
}

// tool reads a definition.
func (l *lister) tool(text []byte) error {
	var name string
	var schema []byte
	wire.Members(text, func(member string, value []byte) bool {
		switch member {
		case "name":
			name, _ = wire.Text(value)
		case "inputSchema":
			schema = value
		}
		return true
	})
	l.size += len(text)
	switch {
	case name == "" || len(name) > maxToolName:
		return errToolName
	case l.names[name]:
		return errTwice
	case len(l.names) == MaxTools:
		return errTools
	case l.size > maxListing:
		return errListing
	}
	l.names[name] = true
	if reason := unusable(text, schema); reason != "" {
		l.Omitted = append(l.Omitted, Omitted{name, reason})
		return nil
	}
	l.Tools = append(l.Tools, Tool{name, slices.Clone(text)})
	return nil
}

// unusable returns why a definition can't be used; empty if it can.
func unusable(text, schema []byte) string {
	if len(text) > MaxDefinition {
		return "the definition is larger than 64 KiB"
	}
	if schema == nil || schema[0] != '{' {
		return "inputSchema: must be an object"
	}
	if _, err := wire.Params(schema); err != nil {
		return err.Error()
	}
	return ""
}
