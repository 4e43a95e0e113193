package openai

import (
	"bytes"
	"context"
	"errors"
	"io"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// stream reads chunks until "[DONE]". An end without it and without a finish reason is a broken connection, not the end
// of the answer; so is an end before any event.
type stream struct {
	ctx    context.Context //nolint:containedctx // The call's: it distinguishes a canceled read from a broken one.
	caller *wire.Caller
	body   io.ReadCloser
	events *sse.Reader
	call   call
	limits provider.Limits
	chunk  chunk
	calls  numbering
	arena  arena
	// thought collects the reasoning for the first call. by is the provider's name for it; if it is empty, no reasoning
	// is kept.
	thought    thoughtJoiner
	by         string
	sources    int  // number of sources next to the choices that were returned
	hasContent bool // an event was returned
	refused    bool // the model refused
	finished   bool // a finish reason was returned
	done       bool
}

func newStream(ctx context.Context, caller *wire.Caller, body io.ReadCloser, call call, limits provider.Limits, by string) *stream {
	hold := memory.FromContext(ctx)
	return &stream{
		ctx: ctx, caller: caller, body: body, events: sse.NewReader(body).Charge(hold), call: call, limits: limits,
		thought: thoughtJoiner{hold: hold, done: by == ""}, by: by,
	}
}

// Limits returns the rate limits from the response's head.
func (s *stream) Limits() provider.Limits { return s.limits }

// Next implements provider.Stream. A native stream returns every frame.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		frame, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF):
			if err := s.end(s.finished); err != nil {
				return provider.Event{}, err
			}
			continue
		case err != nil:
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		}
		switch string(bytes.TrimSpace(frame.Data)) {
		case "": // Some relays keep a connection alive this way.
			if !s.Buffered() {
				return provider.Event{}, nil
			}
			continue
		case "[DONE]":
			if err := s.end(s.hasContent); err != nil {
				return provider.Event{}, err
			}
			continue
		}
		event, err := s.decode(frame)
		if err != nil {
			return provider.Event{}, err
		}
		content := event.Output() || len(event.Citations) > 0 || event.FinishReason != "" || event.Usage != nil
		s.hasContent = s.hasContent || content
		if content || event.Native != nil || !s.Buffered() {
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

// end marks the stream as done, or returns an error if it is not whole.
func (s *stream) end(whole bool) error {
	if !whole {
		return wire.Interrupted(s.ctx, io.ErrUnexpectedEOF)
	}
	s.done = true
	return nil
}

func (s *stream) decode(frame sse.Event) (provider.Event, error) {
	c := &s.chunk
	if err := c.read(s.caller, 0, frame.Data); err != nil {
		return provider.Event{}, err
	}
	if frame.Name == "error" { // Some relays name the event and send any document.
		return provider.Event{}, s.caller.Refused(0, frame.Data)
	}
	if err := c.failure(s.caller, 0); err != nil {
		return provider.Event{}, err
	}
	s.refused = s.refused || c.refused
	s.sources = max(s.sources, c.addSources(s.sources))
	event := provider.Event{
		Citations: c.citations, Images: c.images,
		Text: c.text.String(), Reasoning: c.reasoning.String(), Other: c.other.String(), FinishReason: finishReason(c.finish, s.refused), Usage: c.usage,
	}
	if err := s.thought.add(c, event.Reasoning); err != nil {
		return provider.Event{}, wire.Interrupted(s.ctx, err)
	}
	if len(c.calls) > 0 {
		event.ToolCalls = s.arena.take(len(c.calls))
		for i, call := range c.calls {
			event.ToolCalls[i] = s.calls.number(call)
		}
		if !s.thought.done {
			if t := s.thought.take(s.by); !t.isEmpty() {
				event.ToolCalls[0].Extra = withThought(event.ToolCalls[0].Extra, t)
			}
		}
		if len(s.calls.ids) > provider.MaxToolCalls || len(s.calls.at) > provider.MaxToolCalls {
			return provider.Event{}, wire.Malformed("the answer has too many tool calls", nil)
		}
	}
	event.FinishReason = event.FinishReason.WithCalls(len(s.calls.ids) > 0)
	s.finished = s.finished || event.FinishReason != ""
	if ours := c.choices == 0 && c.usage != nil && !s.call.usageAsked; s.call.native != nil && !ours {
		event.Native, event.NativeType = frame.Data, frame.Name
	}
	return event, nil
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

// arena allocates the slices of calls, many from one allocation.
type arena struct{ free []provider.ToolCall }

func (a *arena) take(n int) []provider.ToolCall {
	if len(a.free) < n {
		a.free = make([]provider.ToolCall, max(n, 16))
	}
	taken := a.free[:n:n]
	a.free = a.free[n:]
	return taken
}

// place identifies a call by the server's index in a choice.
type place struct{ choice, index int }

// numbering numbers the calls of an answer 0, 1, …: OpenAI does, but some compatible servers leave the index out or
// give it twice, some repeat ID and name in each delta, and some give no ID. A new ID begins a new call; so does a name
// without ID and index.
type numbering struct {
	ids []string
	// at maps the server's index to the number of the call that it last meant.
	at map[place]int
}

func (n *numbering) number(d delta) provider.ToolCall {
	at := place{d.choice, d.index}
	number, known := n.at[at]
	begins := d.ID == "" && d.Name != "" && d.index < 0
	if known && !begins && (d.ID == "" || d.ID == n.ids[number]) {
		d.ID, d.Name, d.Index = "", "", number
		return d.ToolCall
	}
	if n.at == nil {
		n.at = make(map[place]int)
	}
	d.Index = len(n.ids)
	n.at[at] = d.Index
	if d.ID == "" {
		d.ID = newID()
	}
	n.ids = append(n.ids, d.ID)
	return d.ToolCall
}
