package upstream

import (
	"cmp"
	"context"
	"encoding/json"

	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Query is a request that reads a resource, gets a prompt, or completes an argument.
type Query struct {
	// Organization is the one that asks. Organizations share no session.
	Organization string
	// Method is wire.MethodReadResource, wire.MethodGetPrompt or wire.MethodComplete.
	Method string
	// Name is the resource's URI or the prompt's name; empty for a completion.
	Name string
	// Params are an object, in the form that was checked, without _meta; its members are sent byte for byte.
	Params json.RawMessage
	// Meta are members of _meta that the caller may set; see Call.
	Meta map[string]json.RawMessage
	// Capabilities, Inputs and State are as in Call.
	Capabilities, Inputs json.RawMessage
	State                string
	// Ask answers what a server of a session asks.
	Ask Ask
	// Progress receives notices of progress, on the caller's goroutine; nil for none.
	Progress func(Progress)
	// Log receives log messages of the server.
	Log Log
}

// Query makes a request, once. The errors are those of Call. The answer is charged to the memory.Hold of ctx.
func (c *Client) Query(ctx context.Context, server *toolserver.Server, q *Query) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(server.Timeout, defaultTimeout))
	defer cancel()
	ctx, span := c.startQuery(ctx, server, q)
	result, err := c.query(ctx, server, q, span)
	finish(span, result, err)
	return result, err
}

func (c *Client) query(ctx context.Context, server *toolserver.Server, q *Query, span trace.Span) (Result, error) {
	p, err := c.peer(ctx, server, q.Organization, q.Ask.Capabilities)
	if err != nil {
		return Result{}, err
	}
	talk := func() *conversation {
		return &conversation{tokened: q.Progress != nil, progress: q.Progress, log: q.Log, asks: q.Ask}
	}
	s, got, err := c.do(ctx, p, talk, func(s *session) (*request, error) {
		r := c.queryRequest(s, q, traceparent(ctx, span))
		annotate(span, s, r)
		return r, nil
	})
	if err != nil {
		return Result{}, err
	}
	return readQuery(s, q.Method, got.result)
}

// queryRequest returns the request of a query.
func (c *Client) queryRequest(s *session, q *Query, span string) *request {
	var params object
	wire.Members(q.Params, func(name string, value []byte) bool {
		if name != "_meta" {
			quoted := jsontext.AppendText(nil, name)
			params.add(string(quoted[1:len(quoted)-1]), value)
		}
		return true
	})
	if s.modern {
		params.add("inputResponses", q.Inputs)
		params.addText("requestState", q.State)
	}
	a := about{extra: q.Meta, capabilities: q.Capabilities, span: span, level: q.Log.Level}
	if q.Progress != nil {
		a.token = 1
	}
	r := c.newRequest(s, q.Method, params, a)
	r.name = q.Name
	return r
}

// Errors of results that the protocol doesn't allow.
var (
	errContents   = protocol("the server's result has no list of contents with URIs")
	errMessages   = protocol("the server's result has no list of messages with roles")
	errCompletion = protocol("the server's result has no completion of at most 100 values")
)

// maxValues is how many values a completion has.
const maxValues = 100

// readQuery reads the result of a query. A modern server may say that it requires input.
func readQuery(s *session, method string, text json.RawMessage) (Result, error) {
	result := Result{Kind: KindComplete, Text: text, Version: s.version}
	var value, inputs, state json.RawMessage
	member := map[string]string{wire.MethodReadResource: "contents", wire.MethodGetPrompt: "messages", wire.MethodComplete: "completion"}[method]
	wire.Members(text, func(name string, found []byte) bool {
		switch {
		case name == "resultType" && s.modern:
			kind, _ := wire.Text(found)
			result.Kind = Kind(kind)
		case name == "inputRequests":
			inputs = found
		case name == "requestState":
			state = found
		case name == member:
			value = found
		}
		return true
	})
	switch {
	case result.Kind == KindInputRequired && method != wire.MethodComplete:
		return required(result, inputs, state)
	case result.Kind != KindComplete:
		return Result{}, errKind
	}
	if err := checkQuery(method, value); err != nil {
		return Result{}, err
	}
	return result, nil
}

// checkQuery checks what a complete result has.
func checkQuery(method string, value json.RawMessage) error {
	switch method {
	case wire.MethodReadResource:
		if !each(value, "uri") {
			return errContents
		}
	case wire.MethodGetPrompt:
		if !each(value, "role") {
			return errMessages
		}
	default:
		if !isCompletion(value) {
			return errCompletion
		}
	}
	return nil
}

// each reports whether a value is a list of objects that have a text of a name.
func each(list json.RawMessage, member string) bool {
	all := true
	return wire.Elements(list, func(value []byte) bool {
		has := false
		wire.Members(value, func(name string, value []byte) bool {
			has = has || name == member && value[0] == '"'
			return !has
		})
		all = has
		return all
	}) && all
}

// isCompletion reports whether a value has a list of texts.
func isCompletion(value json.RawMessage) bool {
	found := false
	wire.Members(orEmpty(value), func(name string, value []byte) bool {
		if name == "values" {
			n, texts := 0, true
			found = wire.Elements(value, func(text []byte) bool {
				n, texts = n+1, text[0] == '"'
				return texts && n <= maxValues
			}) && texts && n <= maxValues
		}
		return true
	})
	return found
}
