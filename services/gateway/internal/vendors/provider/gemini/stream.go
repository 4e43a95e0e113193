package gemini

import (
	"context"
	"errors"
	"io"
	"net/http"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/gateway/internal/vendors/provider/sse"
	"switchyard.dev/services/gateway/internal/vendors/provider/wire"
)

// stream reads chunks until the connection's end: the dialect has no end mark of its own. Some models send a finish
// reason with every chunk, so that only the last one counts; an end without any is a broken connection.
type stream struct {
	ctx    context.Context //nolint:containedctx // The call's: it distinguishes a canceled read from a broken one.
	caller *wire.Caller
	body   io.ReadCloser
	events *sse.Reader
	limits provider.Limits
	native bool // chunks are returned as they were received
	reader reader
	finish string
	done   bool
}

func newStream(ctx context.Context, caller *wire.Caller, response *http.Response, native bool) *stream {
	return &stream{
		ctx: ctx, caller: caller, body: response.Body, events: sse.NewReader(response.Body).Charge(memory.FromContext(ctx)), limits: caller.Limits(response),
		native: native,
	}
}

// Limits returns the rate limits from the response's head.
func (s *stream) Limits() provider.Limits { return s.limits }

// Next implements provider.Stream. A native stream returns every chunk.
func (s *stream) Next() (provider.Event, error) {
	for !s.done {
		chunk, err := s.events.Next()
		switch {
		case errors.Is(err, io.EOF) && s.finish != "":
			s.done = true
			return provider.Event{
				Citations: s.reader.sources(""), FinishReason: finishReason(s.finish).WithCalls(s.reader.calls > 0), Usage: s.reader.usage,
			}, nil
		case errors.Is(err, io.EOF):
			return provider.Event{}, wire.Interrupted(s.ctx, io.ErrUnexpectedEOF)
		case err != nil:
			return provider.Event{}, wire.Interrupted(s.ctx, err)
		}
		event, err := s.decode(chunk.Data)
		if err != nil {
			return provider.Event{}, err
		}
		if s.native {
			event.Native, event.NativeType = chunk.Data, chunk.Name
		}
		if event.Output() || event.Usage != nil || s.native || !s.Buffered() {
			return event, nil
		}
	}
	return provider.Event{}, io.EOF
}

func (s *stream) decode(data []byte) (provider.Event, error) {
	root, err := parse(s.caller, 0, data)
	if err != nil {
		return provider.Event{}, err
	}
	p, err := s.reader.read(root)
	if err != nil {
		return provider.Event{}, err
	}
	if p.finish != "" {
		s.finish = p.finish
	}
	return provider.Event{Text: p.text, Reasoning: p.reasoning, Other: p.other, ToolCalls: p.calls, Images: p.images, Usage: s.reader.usage}, nil
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
