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

// stream reads the dialect's events: message_start, then blocks of
// content_block_start, _delta and _stop, then message_delta and message_stop.
// A ping or an error may come at any time, and events and blocks of types that
// are yet to come.
type stream struct {
	ctx    context.Context //nolint:containedctx // The call's: it tells a cancelled read from a broken one.
	caller *wire.Caller
	body   io.ReadCloser
	events *sse.Reader
	limits provider.Limits
	native bool // frames are given as they came
	usage  usage
	// calls are the tool calls by the number of their block: the dialect numbers
	// all blocks, text included. made is how many have begun.
	calls map[int64]*call
	made  int
	// kept is thinking that waits for its call; block is the one that comes now.
	kept  thinking
	block thinkingBlock
	// thought is how many bytes of it came, of which hold was charged for charged.
	thought, charged int
	hold             *memory.Hold
	spoken           bool // text or a call has begun
	// deltas are what events of calls are made of: many from one allocation, each
	// given away once.
	deltas []provider.ToolCall

	finished bool // a stop reason was given
	done     bool
}

type call struct {
	number int
	spoke  bool // it was given arguments
	// whole are arguments that came with the block's start, as some compatible
	// servers send them; deltas take their place.
	whole string
}

// thinkingBlock is a block of thinking as it comes; start is empty when none does.
type thinkingBlock struct {
	start           []byte
	text, signature []byte
}

func newStream(ctx context.Context, caller *wire.Caller, response *http.Response, native bool) *stream {
	return &stream{
		ctx: ctx, caller: caller, body: response.Body, events: sse.NewReader(response.Body).Charge(memory.FromContext(ctx)),
		limits: caller.Limits(response), native: native, calls: make(map[int64]*call), hold: memory.FromContext(ctx),
	}
}

// maxThinking bounds what is kept of thinking, in bytes; the rest of a stream is
// not kept.
const maxThinking = 8 << 20

// Limits are those of the response's head.
func (s *stream) Limits() provider.Limits { return s.limits }

// Next gives the next event that says something; of a native stream, each frame.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		frame, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF) && s.finished:
			s.done = true // All but message_stop, which says nothing.
			continue
		case errors.Is(err, io.EOF):
			return provider.Event{}, wire.Interrupted(s.ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		case !jsoncheck.Valid(frame.Data):
			return provider.Event{}, wire.Malformed("an event is not the JSON expected", nil)
		}
		root := wire.ParseView(frame.Data)
		kind := root.Get("type").Str
		if kind == "error" {
			return provider.Event{}, s.caller.Refused(0, frame.Data)
		}
		event, says := s.decode(kind, root)
		if s.thought > maxThinking {
			return provider.Event{}, wire.Malformed("the thinking is larger than 8 MiB", nil)
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
		if says || s.native {
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

// decode reports whether the event says something to a caller.
func (s *stream) decode(kind string, root gjson.Result) (event provider.Event, says bool) {
	switch kind {
	case "content_block_delta":
		return s.decodeDelta(root)
	case "content_block_start":
		return s.begin(root)
	case "content_block_stop":
		return s.end(root)
	case "message_start":
		s.usage.update(root.Get("message.usage"))
		s.usage.output.n = 0 // What it says of the output is a placeholder.
		event.Usage = s.usage.disjoint()
		return event, event.Usage != nil
	case "message_delta":
		s.usage.update(root.Get("usage"))
		event.Usage = s.usage.disjoint()
		if !s.finished {
			event.FinishReason = finishReason(root.Get("delta.stop_reason").Str)
			s.finished = event.FinishReason != ""
		}
		return event, true
	case "message_stop":
		s.done = true
	}
	return event, false
}

// begin is the start of a block.
func (s *stream) begin(root gjson.Result) (event provider.Event, says bool) {
	block := root.Get("content_block")
	switch kind := block.Get("type").Str; {
	case kind == "tool_use":
		c := &call{number: s.made, whole: arguments(block)}
		s.made++
		s.calls[root.Get("index").Int()] = c
		s.spoken = true
		delta := provider.ToolCall{ID: wire.Text(block.Get("id")), Name: wire.Text(block.Get("name")), Extra: s.kept.take()}
		return s.called(c, delta), true
	case isThinking(kind):
		s.block = thinkingBlock{start: wire.Bytes(block)}
		s.thought += len(s.block.start)
		event.Reasoning = wire.Text(block.Get("thinking"))
	case kind == "text":
		event.Text = wire.Text(block.Get("text"))
		s.spoken = s.spoken || event.Text != ""
	default:
		event.Other = unshown(block)
	}
	return event, event.Output()
}

func (s *stream) decodeDelta(root gjson.Result) (event provider.Event, says bool) {
	delta := root.Get("delta")
	switch delta.Get("type").Str {
	case "text_delta":
		event.Text = wire.Text(delta.Get("text"))
		s.spoken = s.spoken || event.Text != ""
		return event, event.Text != ""
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

// end is the end of a block.
func (s *stream) end(root gjson.Result) (event provider.Event, says bool) {
	if s.block.start != nil {
		s.kept.add(s.block.whole(), s.spoken)
		s.block = thinkingBlock{}
		return event, false
	}
	if c := s.calls[root.Get("index").Int()]; c != nil && !c.spoke {
		return s.called(c, provider.ToolCall{Arguments: c.whole}), true
	}
	return event, false
}

func (b *thinkingBlock) whole() []byte {
	start := wire.ParseView(b.start)
	return signed(start, wire.Text(start.Get("thinking"))+string(b.text), wire.Text(start.Get("signature"))+string(b.signature))
}

// called is the event of one delta of a call.
func (s *stream) called(c *call, delta provider.ToolCall) provider.Event {
	delta.Index = c.number
	c.spoke = c.spoke || delta.Arguments != ""
	if len(s.deltas) == 0 {
		s.deltas = make([]provider.ToolCall, deltasAtOnce)
	}
	one := s.deltas[:1:1]
	s.deltas = s.deltas[1:]
	one[0] = delta
	return provider.Event{ToolCalls: one}
}

// deltasAtOnce is a compromise between few allocations and little waste.
const deltasAtOnce = 16

// Size is how many bytes have been read.
func (s *stream) Size() int { return s.events.Size() }

// Close ends the call; the connection is kept when the answer was read to its end.
func (s *stream) Close() error {
	if s.done {
		return wire.Finish(s.body)
	}
	return s.body.Close()
}
