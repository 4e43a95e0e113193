package upstream

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"

	"go.opentelemetry.io/otel/trace"

	"switchyard.dev/services/gateway/internal/content/jsontext"
	"switchyard.dev/services/gateway/internal/mcp/task"
	"switchyard.dev/services/gateway/internal/mcp/toolserver"
	"switchyard.dev/services/gateway/internal/mcp/wire"
)

// Call is a call of a tool.
type Call struct {
	// Organization is the one that calls. Organizations share no session.
	Organization string
	// Tool is the server's own name of the tool.
	Tool string
	// Arguments are a JSON object, in the form that was checked; it is sent byte for byte. Nil is an empty one.
	Arguments json.RawMessage
	// Definition is the definition of the tool that the call was checked against. Arguments that it mirrors are sent as
	// headers, too.
	Definition json.RawMessage
	// Meta are members of _meta that the caller may set. The protocol's own, and those that carry a trace, are left out.
	Meta map[string]json.RawMessage
	// Capabilities are what the caller can do in answer to the server, an object; nil for nothing.
	Capabilities json.RawMessage
	// Inputs are the answers to what the server required before, and State is what it gave with the requests; nil and
	// empty for a first call.
	Inputs json.RawMessage
	State  string
	// Ask answers what a server of a session asks.
	Ask Ask
	// Progress receives notices of progress, on the caller's goroutine; nil for none.
	Progress func(Progress)
	// Log receives log messages of the server.
	Log Log
}

// Kind is the kind of a result.
type Kind string

// The kinds. Only a server of wire.Modern answers with another one than KindComplete.
const (
	KindComplete      Kind = wire.ResultComplete
	KindInputRequired Kind = wire.ResultInputRequired
	KindTask          Kind = wire.ResultTask
)

// Result is what a server answers to a call.
type Result struct {
	Kind Kind
	// IsError reports whether the tool failed, as the server says.
	IsError bool
	// Text is the whole result as the server sent it: an object.
	Text json.RawMessage
	// Task is the task of a result of KindTask.
	Task *task.Task
	// Version is the version of the protocol in which it was given.
	Version string
}

// Call calls a tool, once. The error is *wire.Error if the server answered with one, otherwise *Error, whose Sent
// reports whether the tool may have run. The answer is charged to the memory.Hold of ctx.
func (c *Client) Call(ctx context.Context, server *toolserver.Server, call *Call) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, cmp.Or(server.Timeout, defaultTimeout))
	defer cancel()
	ctx, span := c.start(ctx, server, call.Tool)
	result, err := c.call(ctx, server, call, span)
	finish(span, result, err)
	return result, err
}

func (c *Client) call(ctx context.Context, server *toolserver.Server, call *Call, span trace.Span) (Result, error) {
	p, err := c.peer(ctx, server, call.Organization, call.Ask.Capabilities)
	if err != nil {
		return Result{}, err
	}
	talk := func() *conversation {
		return &conversation{tokened: call.Progress != nil, progress: call.Progress, log: call.Log, asks: call.Ask}
	}
	s, got, err := c.do(ctx, p, talk, func(s *session) (*request, error) {
		r, err := c.callRequest(s, call, traceparent(ctx, span))
		if err == nil {
			annotate(span, s, r)
		}
		return r, err
	})
	if err != nil {
		if e, ok := errors.AsType[*wire.Error](err); ok && e.Code == wire.CodeHeaderMismatch {
			c.changed(server.Key()) // The server has another definition than the call.
		}
		return Result{}, err
	}
	return readResult(s, got.result, call.Capabilities)
}

// callRequest returns the request of a call.
func (c *Client) callRequest(s *session, call *Call, span string) (*request, error) {
	var params object
	params.add("name", jsontext.AppendText(nil, call.Tool))
	params.add("arguments", orEmpty(call.Arguments))
	if s.modern {
		params.add("inputResponses", call.Inputs)
		params.addText("requestState", call.State)
	}
	a := about{extra: call.Meta, capabilities: call.Capabilities, span: span, level: call.Log.Level}
	if call.Progress != nil {
		a.token = 1
	}
	r := c.newRequest(s, wire.MethodCallTool, params, a)
	r.name = call.Tool
	if !s.modern {
		return r, nil
	}
	mirrored, err := wire.Params(inputSchema(call.Definition))
	if err != nil {
		return nil, &Error{Cause: CauseProtocol, Text: "the tool's schema breaks a rule: " + err.Error(), Err: err}
	}
	for _, m := range mirrored {
		if value, ok := m.Value(orEmpty(call.Arguments)); ok {
			r.arguments = append(r.arguments, argument{m.Header, value})
		}
	}
	return r, nil
}

// inputSchema returns the schema in a tool's definition; an empty object for none.
func inputSchema(definition json.RawMessage) json.RawMessage {
	var found json.RawMessage
	wire.Members(orEmpty(definition), func(name string, value []byte) bool {
		if name == "inputSchema" {
			found = value
		}
		return found == nil
	})
	return orEmpty(found)
}

// Errors of results that the protocol doesn't allow.
var (
	errKind    = protocol("the server's result is of a kind that was not offered")
	errContent = protocol("the server's result has no list of contents, or one without types")
	errIsError = protocol("the server's result has an isError that is neither true nor false")
	errInputs  = protocol("the server requires input and says neither which nor for what")
)

// readResult reads the result of a call. A legacy server has no kinds: there, and where it is absent, the result is
// complete.
func readResult(s *session, text, capabilities json.RawMessage) (Result, error) {
	result := Result{Kind: KindComplete, Text: text, Version: s.version}
	var content, failed, inputs, state json.RawMessage
	wire.Members(text, func(name string, value []byte) bool {
		switch name {
		case "resultType":
			if s.modern {
				kind, _ := wire.Text(value)
				result.Kind = Kind(kind)
			}
		case "content":
			content = value
		case "isError":
			failed = value
		case "inputRequests":
			inputs = value
		case "requestState":
			state = value
		}
		return true
	})
	switch result.Kind {
	case KindComplete:
		result.IsError = string(failed) == "true"
		return result, complete(content, failed)
	case KindInputRequired:
		return required(result, inputs, state)
	case KindTask:
		if !offersTasks(capabilities) {
			return Result{}, errKind
		}
		var err error
		if result.Task, err = task.Read(text, false); err != nil {
			return Result{}, noTask(err)
		}
		return result, nil
	}
	return Result{}, errKind
}

// required returns a result that requires input, if it says which, or for what.
func required(result Result, inputs, state json.RawMessage) (Result, error) {
	if inputs == nil && state == nil || inputs != nil && inputs[0] != '{' || state != nil && state[0] != '"' {
		return Result{}, errInputs
	}
	return result, nil
}

// complete checks a complete result.
func complete(content, failed json.RawMessage) error {
	if failed != nil && string(failed) != "true" && string(failed) != "false" {
		return errIsError
	}
	typed := true
	if !wire.Elements(content, func(block []byte) bool {
		kind := ""
		wire.Members(block, func(name string, value []byte) bool {
			if name == "type" {
				kind, _ = wire.Text(value)
			}
			return kind == ""
		})
		typed = kind != ""
		return typed
	}) || !typed {
		return errContent
	}
	return nil
}

// offersTasks reports whether capabilities allow a result that comes later.
func offersTasks(capabilities json.RawMessage) bool {
	found := false
	wire.Members(orEmpty(capabilities), func(name string, value []byte) bool {
		if name == "extensions" {
			wire.Members(value, func(name string, _ []byte) bool {
				found = found || name == wire.ExtensionTasks
				return !found
			})
		}
		return true
	})
	return found
}

// Probe asks a server for a sign of life, and returns what it says of itself. The errors are those of Call.
func (c *Client) Probe(ctx context.Context, server *toolserver.Server) (About, error) {
	ctx, cancel := context.WithTimeout(ctx, controlTime)
	defer cancel()
	p, err := c.peer(ctx, server, "", nil)
	if err != nil {
		return About{}, err
	}
	s, _, err := c.do(ctx, p, func() *conversation { return nil }, func(s *session) (*request, error) {
		if s.modern {
			return c.newRequest(s, wire.MethodDiscover, object{}, about{}), nil
		}
		return c.newRequest(s, wire.MethodPing, object{}, about{}), nil
	})
	if err != nil {
		return About{}, err
	}
	return s.about, nil
}
