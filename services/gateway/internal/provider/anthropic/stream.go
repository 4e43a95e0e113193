package anthropic

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/sse"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// stream reads the dialect's events: message_start, then blocks of
// content_block_start, _delta and _stop, then message_delta and message_stop.
// A ping or an error may come at any time.
type stream struct {
	ctx    context.Context //nolint:containedctx // The call's: it tells a cancelled read from a broken one.
	caller *wire.Caller
	body   io.ReadCloser
	events *sse.Reader
	usage  usage
	// calls are the tool calls by the number of their block: the dialect numbers
	// all blocks, text included.
	calls map[int]*call
	done  bool
}

type call struct {
	number int
	spoke  bool // it was given arguments
}

func (c *call) event(delta provider.ToolCall) provider.Event {
	delta.Index = c.number
	c.spoke = c.spoke || delta.Arguments != ""
	return provider.Event{ToolCalls: []provider.ToolCall{delta}}
}

type event struct {
	Type         string `json:"type"`
	Index        int    `json:"index"`
	Message      answer `json:"message"`
	ContentBlock block  `json:"content_block"`
	Delta        delta  `json:"delta"`
	Usage        *usage `json:"usage"`
}

type delta struct {
	Type        string `json:"type"`
	Text        string `json:"text"`
	PartialJSON string `json:"partial_json"`
	StopReason  string `json:"stop_reason"`
}

func newStream(ctx context.Context, caller *wire.Caller, body io.ReadCloser) *stream {
	return &stream{ctx: ctx, caller: caller, body: body, events: sse.NewReader(body), calls: make(map[int]*call)}
}

// Next gives the next event that says something.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		raw, err := s.events.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = io.ErrUnexpectedEOF // The end is message_stop, never the connection's.
			}
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		}
		var e event
		if err := json.Unmarshal(raw.Data, &e); err != nil {
			return provider.Event{}, wire.Malformed("an event is not the JSON expected", err)
		}
		if e.Type == "error" {
			return provider.Event{}, s.caller.Refused(0, raw.Data)
		}
		if out, ok := s.decode(e); ok {
			return out, nil
		}
	}
	return provider.Event{}, io.EOF
}

// decode tells whether the event says something to the caller.
func (s *stream) decode(e event) (provider.Event, bool) {
	switch e.Type {
	case "message_start":
		s.usage.update(e.Message.Usage)
	case "content_block_start":
		if e.ContentBlock.Type == "tool_use" {
			s.calls[e.Index] = &call{number: len(s.calls)}
			return s.calls[e.Index].event(provider.ToolCall{ID: e.ContentBlock.ID, Name: e.ContentBlock.Name}), true
		}
		return provider.Event{Text: e.ContentBlock.Text}, e.ContentBlock.Text != ""
	case "content_block_delta":
		return s.decodeDelta(e)
	case "content_block_stop":
		if call := s.calls[e.Index]; call != nil && !call.spoke {
			return call.event(provider.ToolCall{Arguments: noArguments}), true
		}
	case "message_delta":
		s.usage.update(e.Usage)
		return provider.Event{FinishReason: finishReason(e.Delta.StopReason), Usage: s.usage.disjoint()}, true
	case "message_stop":
		s.done = true
	}
	return provider.Event{}, false
}

func (s *stream) decodeDelta(e event) (provider.Event, bool) {
	switch e.Delta.Type {
	case "text_delta":
		return provider.Event{Text: e.Delta.Text}, e.Delta.Text != ""
	case "input_json_delta":
		if call := s.calls[e.Index]; call != nil && e.Delta.PartialJSON != "" {
			return call.event(provider.ToolCall{Arguments: e.Delta.PartialJSON}), true
		}
	}
	return provider.Event{}, false
}

// Close ends the call; the connection is kept when the answer was read to its end.
func (s *stream) Close() error {
	if s.done {
		return wire.Finish(s.body)
	}
	return s.body.Close()
}
