package bedrock

import (
	"errors"
	"io"
	"net/http"
	"unicode/utf8"

	"github.com/tidwall/gjson"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/anthropic"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// stream reads the events of ConverseStream: messageStart, then blocks of contentBlockStart (not for text), _Delta and
// _Stop, then messageStop, and metadata behind it.
type stream struct {
	events *events
	body   io.ReadCloser
	limits provider.Limits
	claude bool

	// calls are the tool calls by the number of their block: the dialect numbers all blocks, including text. made is the
	// number of calls that have begun.
	calls map[int64]*call
	made  int
	// kept is thinking that waits for its call; block is the thinking block that is being received.
	kept  anthropic.Thinking
	block thinkingBlock
	// thought is the number of bytes of thinking received, of which charged were charged to hold.
	thought, charged int
	hold             *memory.Hold
	contentBegun     bool // text or a call has begun
	// text is the number of the block that is being received. begun is how many characters the answer had when the
	// block began; characters is how many it has so far.
	text              int64
	begun, characters int
	format            string // format of the image that is being received
	deltas            provider.CallDeltas

	finished, metered, done bool
}

type call struct {
	number       int
	hasArguments bool // arguments were received
}

// thinkingBlock is a block of thinking that is being received.
type thinkingBlock struct {
	number                    int64
	text, signature, redacted []byte
}

func newStream(events *events, response *http.Response, claude bool) *stream {
	return &stream{
		events: events, body: response.Body, limits: events.caller.Limits(response), claude: claude,
		calls: make(map[int64]*call), hold: memory.FromContext(events.ctx),
	}
}

// maxThinking bounds the thinking that a stream keeps, in bytes; a stream with more is an error.
const maxThinking = 8 << 20

// Limits returns the rate limits from the response's head.
func (s *stream) Limits() provider.Limits { return s.limits }

// Next implements provider.Stream.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		m, err := s.events.next()
		switch {
		case errors.Is(err, io.EOF) && s.finished:
			s.done = true // Only the usage is missing.
			continue
		case errors.Is(err, io.EOF):
			return provider.Event{}, wire.Interrupted(s.events.ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return provider.Event{}, err
		}
		event, hasContent, err := s.decode(m.Name, wire.ParseView(m.Payload))
		if err == nil {
			err = s.bound()
		}
		if err != nil {
			return provider.Event{}, err
		}
		if hasContent || !s.Buffered() {
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

// bound returns an error once the stream holds more than it may.
func (s *stream) bound() error {
	if s.thought > maxThinking {
		return wire.Malformed("the thinking is larger than 8 MiB", nil)
	}
	if len(s.calls) > provider.MaxToolCalls {
		return provider.TooManyCalls()
	}
	if err := s.hold.Charge(s.thought - s.charged); err != nil {
		return wire.Interrupted(s.events.ctx, err)
	}
	s.charged = s.thought
	return nil
}

// decode returns the event, and whether it has content for a caller.
func (s *stream) decode(kind string, root gjson.Result) (event provider.Event, hasContent bool, err error) {
	switch kind {
	case "contentBlockDelta":
		event = s.delta(root.Get("contentBlockIndex").Int(), root.Get("delta"))
		return event, event.Output() || len(event.Citations) > 0, nil
	case "contentBlockStart":
		event = s.begin(root.Get("contentBlockIndex").Int(), root.Get("start"))
		return event, event.Output(), nil
	case "contentBlockStop":
		event = s.end(root.Get("contentBlockIndex").Int())
		return event, event.Output(), nil
	case "messageStop":
		if !s.finished {
			event.FinishReason, err = finishReason(root.Get("stopReason").Str)
			event.FinishReason = event.FinishReason.WithCalls(s.made > 0)
			s.finished = event.FinishReason != ""
		}
	case "metadata":
		event.Usage = usageOf(root.Get("usage"))
		s.metered = true
	}
	s.done = s.finished && s.metered
	return event, event.FinishReason != "" || event.Usage != nil, err
}

// begin handles the start of a block.
func (s *stream) begin(number int64, start gjson.Result) provider.Event {
	s.finishThinking()
	use := start.Get("toolUse")
	s.format = wire.Text(start.Get("image.format"))
	if !use.IsObject() || use.Get("type").Str == serverTool {
		return provider.Event{}
	}
	c := &call{number: s.made}
	s.made++
	s.calls[number] = c
	s.contentBegun = true
	return s.called(c, provider.ToolCall{ID: wire.Text(use.Get("toolUseId")), Name: wire.Text(use.Get("name")), Extra: s.kept.Take()})
}

func (s *stream) delta(number int64, delta gjson.Result) (event provider.Event) {
	if number != s.text {
		s.text, s.begun = number, s.characters
	}
	if number != s.block.number {
		s.finishThinking()
		s.block.number = number
	}
	delta.ForEach(func(kind, value gjson.Result) bool {
		switch kind.Str {
		case "text":
			event.Text = wire.Text(value)
			s.characters += utf8.RuneCountInString(event.Text)
			s.contentBegun = s.contentBegun || event.Text != ""
		case "toolUse":
			arguments := wire.Text(value.Get("input"))
			c := s.calls[number]
			switch {
			case c == nil:
				event.Other = arguments // Of a tool of the vendor's own.
			case arguments != "":
				event.ToolCalls = s.called(c, provider.ToolCall{Arguments: arguments}).ToolCalls
			}
		case "reasoningContent":
			event.Reasoning = s.think(value)
		case "citation":
			event.Citations = append(event.Citations, citation(value, s.begun, s.characters))
		case "image":
			if uri := image(s.format, value); uri != "" {
				event.Images = append(event.Images, uri)
			}
		}
		return true
	})
	return event
}

// think keeps a piece of thinking, of Claude only, and returns its text.
func (s *stream) think(piece gjson.Result) string {
	text := wire.Text(piece.Get("text"))
	if !s.claude {
		return text
	}
	signature, redacted := wire.Text(piece.Get("signature")), wire.Text(piece.Get("redactedContent"))
	s.block.text = append(s.block.text, text...)
	s.block.signature = append(s.block.signature, signature...)
	s.block.redacted = append(s.block.redacted, redacted...)
	s.thought += len(text) + len(signature) + len(redacted)
	return text
}

// finishThinking ends the block of thinking that is being received, if there is one.
func (s *stream) finishThinking() {
	keep(&s.kept, string(s.block.text), string(s.block.signature), string(s.block.redacted), s.contentBegun)
	s.block = thinkingBlock{}
}

// end handles the end of a block.
func (s *stream) end(number int64) provider.Event {
	s.finishThinking()
	if c := s.calls[number]; c != nil && !c.hasArguments {
		return s.called(c, provider.ToolCall{Arguments: noArguments})
	}
	return provider.Event{}
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
