package anthropic

import (
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
	"switchyard.dev/services/platform/jsoncheck"
)

// Events are the events of a message, in whatever frames its host sends them: an *sse.Reader from Anthropic itself. Next
// returns io.EOF at the end; an error of the type *provider.Error is the stream's own.
type Events interface {
	Next() (sse.Event, error)
	// Buffered reports whether Next returns without waiting for the vendor.
	Buffered() bool
	// Size returns the number of bytes that have been read.
	Size() int
}

// stream reads the dialect's events: message_start, then blocks of content_block_start, _delta and _stop, then
// message_delta and message_stop. A ping or an error may come at any time, as may events and blocks of future types.
type stream struct {
	ctx    context.Context //nolint:containedctx // The call's: it distinguishes a canceled read from a broken one.
	caller *wire.Caller
	body   io.ReadCloser
	events Events
	limits provider.Limits
	native bool // frames are returned as they were received
	usage  usage
	// calls are the tool calls by the number of their block: the dialect numbers all blocks, including text. made is
	// the number of calls that have begun.
	calls map[int64]*call
	made  int
	// kept is thinking that waits for its call; block is the thinking block that is being received.
	kept  Thinking
	block thinkingBlock
	// sources collects the sources of the text block that is being received.
	sources cited
	// thought counts the received bytes of thinking and sources; charged counts those that were charged to hold.
	thought, charged int
	hold             *memory.Hold
	contentBegun     bool // text or a call has begun
	deltas           provider.CallDeltas

	finished bool // a stop reason was received
	done     bool
}

type call struct {
	number       int
	hasArguments bool // arguments were received
	// whole are arguments that came with the block's start, as some compatible servers send them; deltas replace them.
	whole string
}

// thinkingBlock is a block of thinking that is being received; start is nil if there is none.
type thinkingBlock struct {
	start           []byte
	text, signature []byte
}

// NewStream returns the stream of a message whose events come from a response. If native is true, it returns every event
// as it was received, too.
func NewStream(ctx context.Context, caller *wire.Caller, response *http.Response, events Events, native bool) provider.Stream {
	return &stream{
		ctx: ctx, caller: caller, body: response.Body, events: events,
		limits: caller.Limits(response), native: native, calls: make(map[int64]*call), hold: memory.FromContext(ctx),
	}
}

// maxThinking bounds the thinking that a stream keeps, in bytes; a stream with more is an error.
const maxThinking = 8 << 20

// Limits returns the rate limits from the response's head.
func (s *stream) Limits() provider.Limits { return s.limits }

// Next implements provider.Stream. A native stream returns every frame.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		frame, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF) && s.finished:
			s.done = true // Only message_stop is missing, which has no content.
			continue
		case errors.Is(err, io.EOF):
			return provider.Event{}, wire.Interrupted(s.ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return provider.Event{}, s.failed(err)
		case !jsoncheck.Valid(frame.Data):
			return provider.Event{}, wire.Malformed("an event is not the JSON expected", nil)
		}
		root := wire.ParseView(frame.Data)
		kind := root.Get("type").Str
		if kind == "error" {
			return provider.Event{}, s.caller.Refused(0, frame.Data)
		}
		event, hasContent := s.decode(kind, root)
		if s.thought > maxThinking {
			return provider.Event{}, wire.Malformed("the thinking or the citations are larger than 8 MiB", nil)
		}
		if len(s.calls) > provider.MaxToolCalls {
			return provider.Event{}, wire.Malformed("the answer has too many tool calls", nil)
		}
		if err := s.hold.Charge(s.thought - s.charged); err != nil {
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		}
		s.charged = s.thought
		if s.native {
			event.Native, event.NativeType = frame.Data, frame.Name
		}
		if hasContent || s.native || !s.Buffered() {
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

// failed returns the error of a stream that can't be read.
func (s *stream) failed(err error) error {
	if own, ok := errors.AsType[*provider.Error](err); ok {
		return own
	}
	return wire.Interrupted(s.ctx, err)
}

// decode returns the event, and whether it has content for a caller.
func (s *stream) decode(kind string, root gjson.Result) (event provider.Event, hasContent bool) {
	switch kind {
	case "content_block_delta":
		return s.decodeDelta(root)
	case "content_block_start":
		return s.begin(root)
	case "content_block_stop":
		return s.end(root)
	case "message_start":
		s.usage.update(root.Get("message.usage"))
		s.usage.output.n = 0 // Its count of the output is a placeholder.
		event.Usage = s.usage.disjoint()
		return event, event.Usage != nil
	case "message_delta":
		s.usage.update(root.Get("usage"))
		event.Usage = s.usage.disjoint()
		if !s.finished {
			event.FinishReason = finishReason(root.Get("delta.stop_reason").Str).WithCalls(s.made > 0)
			s.finished = event.FinishReason != ""
		}
		return event, true
	case "message_stop":
		s.done = true
	}
	return event, false
}

// begin handles the start of a block.
func (s *stream) begin(root gjson.Result) (event provider.Event, hasContent bool) {
	block := root.Get("content_block")
	switch kind := block.Get("type").Str; {
	case kind == "tool_use":
		c := &call{number: s.made, whole: arguments(block)}
		s.made++
		s.calls[root.Get("index").Int()] = c
		s.contentBegun = true
		delta := provider.ToolCall{ID: wire.Text(block.Get("id")), Name: wire.Text(block.Get("name")), Extra: s.kept.Take()}
		return s.called(c, delta), true
	case isThinking(kind):
		s.block = thinkingBlock{start: wire.Bytes(block)}
		s.thought += len(s.block.start)
		event.Reasoning = wire.Text(block.Get("thinking"))
	case kind == "text":
		event.Text = wire.Text(block.Get("text"))
		s.sources.write(event.Text)
		s.contentBegun = s.contentBegun || event.Text != ""
	default:
		event.Other = unshown(block)
	}
	return event, event.Output()
}

func (s *stream) decodeDelta(root gjson.Result) (event provider.Event, hasContent bool) {
	delta := root.Get("delta")
	switch delta.Get("type").Str {
	case "text_delta":
		event.Text = wire.Text(delta.Get("text"))
		s.sources.write(event.Text)
		s.contentBegun = s.contentBegun || event.Text != ""
		return event, event.Text != ""
	case "citations_delta":
		found := citation(delta.Get("citation"))
		s.sources.sources = append(s.sources.sources, found)
		s.thought += provider.CitationBytes([]provider.Citation{found})
	case "input_json_delta":
		arguments := wire.Text(delta.Get("partial_json"))
		if c := s.calls[root.Get("index").Int()]; c != nil && arguments != "" {
			return s.called(c, provider.ToolCall{Arguments: arguments}), true
		}
		event.Other = arguments // Of a tool of the vendor's own.
	case "compaction_delta":
		event.Other = wire.Text(delta.Get("content"))
	case "thinking_delta":
		event.Reasoning = wire.Text(delta.Get("thinking"))
		s.block.text = append(s.block.text, event.Reasoning...)
		s.thought += len(event.Reasoning)
	case "signature_delta":
		signature := wire.Text(delta.Get("signature"))
		s.block.signature = append(s.block.signature, signature...)
		s.thought += len(signature)
	}
	return event, event.Output()
}

// end handles the end of a block.
func (s *stream) end(root gjson.Result) (event provider.Event, hasContent bool) {
	if s.block.start != nil {
		s.kept.Add(s.block.whole(), s.contentBegun)
		s.block = thinkingBlock{}
		return event, false
	}
	if event.Citations = s.sources.take(); event.Citations != nil {
		return event, true
	}
	if c := s.calls[root.Get("index").Int()]; c != nil && !c.hasArguments {
		return s.called(c, provider.ToolCall{Arguments: c.whole}), true
	}
	return event, false
}

func (b *thinkingBlock) whole() []byte {
	start := wire.ParseView(b.start)
	return signed(start, wire.Text(start.Get("thinking"))+string(b.text), wire.Text(start.Get("signature"))+string(b.signature))
}

// called returns the event for one delta of a call.
func (s *stream) called(c *call, delta provider.ToolCall) provider.Event {
	delta.Index = c.number
	c.hasArguments = c.hasArguments || delta.Arguments != ""
	return s.deltas.Event(delta)
}

// Buffered implements provider.Stream.
func (s *stream) Buffered() bool { return s.done || s.events.Buffered() }

// Size returns the number of bytes read.
func (s *stream) Size() int { return s.events.Size() }

// Close ends the call; the connection is kept if the answer was read to its end.
func (s *stream) Close() error {
	if s.done {
		return wire.Finish(s.body)
	}
	return s.body.Close()
}
