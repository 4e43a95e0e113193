package openai

import (
	"context"
	"errors"
	"io"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/sse"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// stream reads chunks until "[DONE]". An end without it and without a finish
// reason is a cut connection, not the end of the answer; so is an end at once.
type stream struct {
	ctx      context.Context //nolint:containedctx // The call's: it tells a cancelled read from a broken one.
	caller   *wire.Caller
	body     io.ReadCloser
	events   *sse.Reader
	calls    numbering
	spoke    bool // an event was given
	finished bool // a finish reason was given
	done     bool
}

func newStream(ctx context.Context, caller *wire.Caller, body io.ReadCloser) *stream {
	return &stream{ctx: ctx, caller: caller, body: body, events: sse.NewReader(body), calls: numbering{at: make(map[int]int)}}
}

// Next gives the next event that says something.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		chunk, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF):
			if err := s.end(s.finished); err != nil {
				return provider.Event{}, err
			}
			continue
		case err != nil:
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		case string(chunk.Data) == "[DONE]":
			if err := s.end(s.spoke); err != nil {
				return provider.Event{}, err
			}
			continue
		}
		event, err := s.decode(chunk.Data)
		if err != nil {
			return provider.Event{}, err
		}
		if event.Content() || event.FinishReason != "" || event.Usage != nil {
			s.spoke = true
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

// end takes the stream as done, or as cut when it is not whole.
func (s *stream) end(whole bool) error {
	if !whole {
		return wire.Interrupted(s.ctx, io.ErrUnexpectedEOF)
	}
	s.done = true
	return nil
}

func (s *stream) decode(data []byte) (provider.Event, error) {
	chunk, err := decode(s.caller, 0, data)
	if err != nil {
		return provider.Event{}, err
	}
	event := provider.Event{Usage: chunk.Usage.disjoint()}
	if len(chunk.Choices) > 0 {
		first := chunk.Choices[0]
		event.Text, event.FinishReason = first.Delta.text(), finishReason(first.FinishReason)
		for _, call := range first.Delta.ToolCalls {
			event.ToolCalls = append(event.ToolCalls, s.calls.number(call))
		}
	}
	s.finished = s.finished || event.FinishReason != ""
	return event, nil
}

// Close ends the call; the connection is kept when the answer was read to its end.
func (s *stream) Close() error {
	if s.done {
		return wire.Finish(s.body)
	}
	return s.body.Close()
}

// numbering gives the calls of a stream the numbers 0, 1, …: OpenAI does, but
// some compatible servers leave the index out or give it twice, and some repeat
// id and name in each delta. A new id begins a new call.
type numbering struct {
	ids []string
	// at holds our number of the call that the vendor's index last meant; no index is -1.
	at map[int]int
}

func (n *numbering) number(call toolCall) provider.ToolCall {
	index := -1
	if call.Index != nil {
		index = *call.Index
	}
	number, known := n.at[index]
	if known && (call.ID == "" || call.ID == n.ids[number]) {
		call.ID, call.Function.Name = "", ""
		return call.at(number)
	}
	n.at[index] = len(n.ids)
	n.ids = append(n.ids, call.ID)
	return call.at(n.at[index])
}
