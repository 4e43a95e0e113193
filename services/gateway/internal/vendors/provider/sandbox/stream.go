package sandbox

import (
	"context"
	"io"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// stream returns events that were made before.
type stream struct {
	ctx    context.Context //nolint:containedctx // The call's: a canceled call returns no more events.
	events []provider.Event
	err    error         // returned after the last event; nil for io.EOF
	step   time.Duration // wait before each event
}

// events splits an answer as vendors do: thinking and text by word, each call into its head and two pieces of
// arguments, and last the finish reason with the usage.
func events(a *provider.Answer) []provider.Event {
	var list []provider.Event
	for word := range strings.SplitAfterSeq(a.Reasoning, " ") {
		if word != "" {
			list = append(list, provider.Event{Reasoning: word})
		}
	}
	if a.Text != "" {
		for word := range strings.SplitAfterSeq(a.Text, " ") {
			if word != "" {
				list = append(list, provider.Event{Text: word})
			}
		}
	}
	for _, call := range a.ToolCalls {
		half := len(call.Arguments) / 2
		for _, delta := range []provider.ToolCall{
			{Index: call.Index, ID: call.ID, Name: call.Name},
			{Index: call.Index, Arguments: call.Arguments[:half]},
			{Index: call.Index, Arguments: call.Arguments[half:]},
		} {
			list = append(list, provider.Event{ToolCalls: []provider.ToolCall{delta}})
		}
	}
	return append(list, provider.Event{FinishReason: a.FinishReason, Usage: a.Usage})
}

// Next returns the next event.
func (s *stream) Next() (provider.Event, error) {
	if s.step > 0 && len(s.events) > 0 {
		pause(s.ctx, s.step)
	}
	switch {
	case s.ctx.Err() != nil:
		return provider.Event{}, wire.Interrupted(s.ctx, s.ctx.Err())
	case len(s.events) > 0:
		event := s.events[0]
		s.events = s.events[1:]
		return event, nil
	case s.err != nil:
		return provider.Event{}, wire.Interrupted(s.ctx, s.err)
	}
	return provider.Event{}, io.EOF
}

// Buffered implements provider.Stream.
func (s *stream) Buffered() bool { return s.step == 0 || len(s.events) == 0 }

// Size returns 0: nothing is read.
func (*stream) Size() int { return 0 }

// Close ends the stream.
func (s *stream) Close() error {
	s.events = nil
	return nil
}
