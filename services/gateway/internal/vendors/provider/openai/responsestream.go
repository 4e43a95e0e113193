package openai

import (
	"bytes"
	"context"
	"errors"
	"hash/maphash"
	"io"
	"strings"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// responseStream reads the events of a response until its terminal event. Every event is relayed; what is parsed is what
// the gateway counts and approves.
type responseStream struct {
	ctx    context.Context //nolint:containedctx // The call's: it distinguishes a canceled read from a broken one.
	caller *wire.Caller
	body   io.ReadCloser
	events *sse.Reader
	at     origin
	limits provider.Limits
	// calls are the function calls by the output index of their items.
	calls   map[int64]*responseCallItem
	arena   arena
	refused bool
	done    bool
}

// responseCallItem is a function call of a stream.
type responseCallItem struct {
	number   int
	id, name string
	// written is a hash of the arguments that have arrived; size is their length.
	written maphash.Hash
	size    int
}

// write records arguments that have arrived.
func (c *responseCallItem) write(arguments string) {
	_, _ = c.written.WriteString(arguments) // It never fails.
	c.size += len(arguments)
}

// is reports whether a call is the one that has arrived.
func (c *responseCallItem) is(call provider.ToolCall) bool {
	return c.id == call.ID && c.name == call.Name && c.size == len(call.Arguments) &&
		c.written.Sum64() == maphash.String(c.written.Seed(), call.Arguments)
}

// contradiction returns the error of a vendor that repeats a call with other content: some clients act on the one, some on
// the other, and only one was checked.
func contradiction() error {
	return wire.Malformed("the answer repeats a call with other content", nil)
}

func newResponseStream(ctx context.Context, caller *wire.Caller, body io.ReadCloser, at origin, limits provider.Limits) *responseStream {
	return &responseStream{
		at:  at,
		ctx: ctx, caller: caller, body: body, events: sse.NewReader(body).Charge(memory.FromContext(ctx)), limits: limits,
		calls: make(map[int64]*responseCallItem),
	}
}

// Limits returns the rate limits from the response's head.
func (s *responseStream) Limits() provider.Limits { return s.limits }

// Next implements provider.Stream.
func (s *responseStream) Next() (provider.Event, error) {
	for !s.done {
		frame, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF):
			return provider.Event{}, wire.Interrupted(s.ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		case len(bytes.TrimSpace(frame.Data)) == 0: // Some relays keep a connection alive this way.
			if !s.Buffered() {
				return provider.Event{}, nil
			}
			continue
		case !jsoncheck.Valid(frame.Data):
			return provider.Event{}, wire.Malformed("an event is not the JSON expected", nil)
		}
		return s.decode(frame)
	}
	return provider.Event{}, io.EOF
}

func (s *responseStream) decode(frame sse.Event) (provider.Event, error) {
	root := wire.ParseView(frame.Data)
	event := provider.Event{Native: frame.Data, NativeType: frame.Name}
	kind := root.Get("type").Str
	if kind == "" {
		kind = frame.Name
	}
	var err error
	switch kind {
	case "response.output_text.delta":
		event.Text = wire.Text(root.Get("delta"))
	case "response.refusal.delta":
		event.Text, s.refused = wire.Text(root.Get("delta")), true
	case "response.reasoning_summary_text.delta", "response.reasoning_text.delta":
		event.Reasoning = wire.Text(root.Get("delta"))
	case "response.function_call_arguments.delta":
		event.ToolCalls = s.argue(root, wire.Text(root.Get("delta")))
	case "response.output_item.added", "response.output_item.done":
		err = s.item(&event, root, kind)
		event.Native = s.at.sealAll(frame.Data, "item", nil)
	case "response.completed", "response.incomplete", "response.failed":
		err = s.end(&event, root.Get("response"))
		event.Native = s.at.sealAll(frame.Data, "response.output", nil)
	case "error":
		return provider.Event{}, s.caller.Refused(0, errorDocument(root))
	default:
		if strings.HasSuffix(kind, ".delta") { // Of custom tools, the vendor's own tools, and sound.
			event.Other = wire.Text(root.Get("delta"))
		}
	}
	if err != nil {
		return provider.Event{}, err
	}
	return event, nil
}

// errorDocument returns the error of an event, whose members may be at its top, in the form of an answer's body.
func errorDocument(root gjson.Result) []byte {
	if nested := root.Get("error"); nested.IsObject() {
		return []byte(`{"error":` + nested.Raw + `}`)
	}
	return []byte(`{"error":` + root.Raw + `}`)
}

// argue returns the delta of a call's arguments.
func (s *responseStream) argue(root gjson.Result, arguments string) []provider.ToolCall {
	c := s.calls[root.Get("output_index").Int()]
	if c == nil || arguments == "" {
		return nil
	}
	c.write(arguments)
	one := s.arena.take(1)
	one[0] = provider.ToolCall{Index: c.number, Arguments: arguments}
	return one
}

// item reads an item that begins or is done. An item that is done repeats its call.
func (s *responseStream) item(event *provider.Event, root gjson.Result, kind string) error {
	item, done := root.Get("item"), kind == "response.output_item.done"
	switch of := item.Get("type").Str; {
	case of == "function_call":
		return s.call(event, root.Get("output_index").Int(), responseCall(item), done)
	case done && of != "message" && of != "reasoning":
		event.Other = wire.Text(item.Get("name"))
	}
	return nil
}

// call reads a call that begins or is done.
func (s *responseStream) call(event *provider.Event, index int64, call provider.ToolCall, done bool) error {
	c := s.calls[index]
	switch {
	case c == nil && len(s.calls) == provider.MaxToolCalls:
		return provider.TooManyCalls()
	case c == nil:
		c = &responseCallItem{number: len(s.calls), id: call.ID, name: call.Name}
		s.calls[index] = c
		if !done {
			call.Arguments = "" // It is empty, or comes again when the item is done.
		}
	case done && c.size == 0 && c.id == call.ID && c.name == call.Name: // Some servers send no deltas.
		event.Repeated = []string{call.Name}
		call.ID, call.Name = "", ""
	case done && c.is(call):
		event.Repeated = []string{call.Name}
		return nil
	default:
		return contradiction()
	}
	call.Index = c.number
	c.write(call.Arguments)
	event.ToolCalls = []provider.ToolCall{call}
	return nil
}

// end reads the terminal event, which repeats all items.
func (s *responseStream) end(event *provider.Event, response gjson.Result) (err error) {
	var r responseObject
	members(response, r.member)
	if r.failed() {
		return r.failure(s.caller, 0)
	}
	s.done = true
	var index int64
	each(r.output, func(item gjson.Result) {
		if item.Get("type").Str == "function_call" && err == nil {
			err = s.repeat(event, index, responseCall(item))
		}
		index++
	})
	event.Usage = responseUsage(r.usage)
	event.FinishReason = r.finishReason(s.refused).WithCalls(len(s.calls) > 0)
	return err
}

// repeat reads a call of the terminal event, which is new only at servers that send no events for items.
func (s *responseStream) repeat(event *provider.Event, index int64, call provider.ToolCall) error {
	var one provider.Event
	if err := s.call(&one, index, call, true); err != nil {
		return err
	}
	event.ToolCalls = append(event.ToolCalls, one.ToolCalls...)
	event.Repeated = append(event.Repeated, one.Repeated...)
	return nil
}

// Buffered implements provider.Stream.
func (s *responseStream) Buffered() bool { return s.done || s.events.Buffered() }

// Size returns the number of bytes read.
func (s *responseStream) Size() int { return s.events.Size() }

// Close ends the call; the connection is kept if the answer was read to its end.
func (s *responseStream) Close() error {
	if s.done {
		return wire.Finish(s.body)
	}
	return s.body.Close()
}
