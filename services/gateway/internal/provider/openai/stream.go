package openai

import (
	"context"
	"encoding/json"
	"errors"
	"io"

	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/gateway/internal/provider/sse"
	"switchyard.dev/services/gateway/internal/provider/wire"
)

// stream reads chunks until "[DONE]". An end without it and without a finish
// reason is a cut connection, not the end of the answer.
type stream struct {
	ctx      context.Context //nolint:containedctx // The call's: it tells a cancelled read from a broken one.
	caller   *wire.Caller
	body     io.ReadCloser
	events   *sse.Reader
	finished bool
	done     bool
}

func newStream(ctx context.Context, caller *wire.Caller, body io.ReadCloser) *stream {
	return &stream{ctx: ctx, caller: caller, body: body, events: sse.NewReader(body)}
}

// Next gives the next event that says something.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		chunk, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF) && s.finished:
			return provider.Event{}, io.EOF
		case err != nil:
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		case string(chunk.Data) == "[DONE]":
			s.done = true
			continue
		}
		event, err := s.decode(chunk.Data)
		if err != nil {
			return provider.Event{}, err
		}
		if event.Content() || event.FinishReason != "" || event.Usage != nil {
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

func (s *stream) decode(data []byte) (provider.Event, error) {
	var chunk completion
	if err := json.Unmarshal(data, &chunk); err != nil {
		return provider.Event{}, wire.Malformed("a chunk is not the JSON expected", err)
	}
	if chunk.Error != nil {
		return provider.Event{}, s.caller.Refused(0, chunk.document())
	}
	if chunk.Object == "error" {
		return provider.Event{}, s.caller.Refused(0, data)
	}
	var event provider.Event
	if chunk.Usage != nil {
		event.Usage = chunk.Usage.disjoint()
	}
	if len(chunk.Choices) > 0 {
		first := chunk.Choices[0]
		event.Text, event.ToolCalls = first.Delta.text(), first.Delta.calls()
		event.FinishReason = finishReason(first.FinishReason)
	}
	s.finished = s.finished || event.FinishReason != ""
	return event, nil
}

// Close ends the call; the connection is kept only when the stream was read to its end.
func (s *stream) Close() error { return s.body.Close() }
