package inference

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/serving/cache"
	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// incoming is an answer as it arrives from one vendor, with what is known of it so far.
type incoming struct {
	x   *execution
	ctx context.Context //nolint:containedctx // The request's own: the stream is the rest of that call.
	// attempt is the one whose answer it is; nil for an answer from the cache.
	attempt *attempt

	upstream provider.Stream
	cancel   context.CancelCauseFunc
	timer    *streamTimer

	// held are the events up to the first content, in order; most is what the answer may use.
	held   []provider.Event
	most   bound
	tally  tally
	finish provider.FinishReason
	calls  bool
	ended  bool // the provider has sent its last event
	// buffered reports whether the provider's next event has arrived.
	buffered bool
	// pieces counts the pieces of content. last is when the last chunk arrived, since the answer began.
	pieces int
	last   time.Duration

	// recording is what is stored in the response cache; nil for nothing.
	recording *recording

	// contentType is the media type of a relayed answer, and whole reports whether it came whole.
	contentType string
	whole       bool
	// answer is the vendor's JSON where it came whole.
	answer json.RawMessage
}

// open starts a stream at a candidate and reads up to its first content.
func (s *incoming) open(ctx context.Context, a *attempt) error {
	s.attempt, s.most, s.tally = a, s.x.boundAt(&a.candidate), tally{written: a.transcript()}
	ctx, cancel := context.WithCancelCause(ctx)
	clock := newStreamTimer(cancel, s.x.engine.Clocks.first(s.x.request)*a.grace, s.x.engine.Clocks.Idle)
	upstream, err := s.dial(ctx)
	if err == nil {
		err = s.hold(upstream, clock)
	}
	if err == nil && !clock.restart() {
		err = &provider.Error{Class: apierr.ClassTransient, Text: errFirstToken.Error(), Cause: errFirstToken}
	}
	if err != nil {
		a.arrived = s.tally
		clock.stop()
		cancel(err)
		if upstream != nil {
			_ = upstream.Close()
		}
		return err
	}
	a.began = time.Now()
	s.upstream, s.cancel, s.timer = upstream, cancel, clock
	return nil
}

// dial makes the call and returns once the vendor's response head has arrived.
func (s *incoming) dial(ctx context.Context) (provider.Stream, error) {
	if s.x.request.Relay != nil {
		return s.relay(ctx)
	}
	p, err := s.attempt.chatProvider()
	if err != nil {
		return nil, err
	}
	chat, err := s.x.chat(ctx, &s.attempt.candidate)
	if err != nil {
		return nil, err
	}
	upstream, err := p.StreamChat(ctx, s.attempt.credential, chat.Chat)
	if err != nil {
		return nil, err
	}
	s.attempt.answered = true
	if limited, ok := upstream.(provider.LimitedStream); ok {
		s.attempt.learn(limited.Limits())
	}
	return &callStream{Stream: upstream, asked: chat, hold: s.attempt.hold, kept: s.x.request.KeepsAnswer}, nil
}

// maxHeld bounds the frames that are held before the first content, in bytes: after so many the vendor's answer has
// begun, whatever it contains.
const maxHeld = 64 << 10

// hold reads until the first event that carries content, and keeps the vendor's frames before it for a face that relays
// them. A stream that ends before it with a finish reason is an empty answer; one without is a failure.
func (s *incoming) hold(upstream provider.Stream, clock *streamTimer) error {
	s.held, s.finish, s.calls, s.ended, s.pieces, s.last = nil, "", false, false, 0, 0
	if s.recording = nil; s.x.cacheKey != (cache.Key{}) {
		s.recording = &recording{}
	}
	for size := 0; ; {
		event, err := advance(upstream)
		switch {
		case errors.Is(err, io.EOF) && s.finish != "":
			s.ended = true
			return nil
		case errors.Is(err, io.EOF):
			return &provider.Error{Class: apierr.ClassTransient, Text: "the stream ended before it began"}
		case err != nil:
			return err
		}
		if err := s.note(event, upstream.Size()); err != nil {
			return err
		}
		if !event.Empty() && (clock.alive || event.Output()) && !clock.restart() {
			return &provider.Error{Class: apierr.ClassTransient, Text: errFirstToken.Error(), Cause: errFirstToken}
		}
		if !s.x.request.Shows(event) {
			continue
		}
		switch {
		case !s.whole:
			event.Native = bytes.Clone(event.Native) // The frame is valid only until the next event.
		case strings.HasPrefix(s.contentType, "application/json"):
			s.answer = event.Native
		}
		s.held = append(s.held, event)
		if size += heldSize(event); s.begins(event) || size > maxHeld {
			return nil
		}
	}
}

// begins reports whether an event is the beginning of an answer. Output without content is one only where the face
// shows it: where it relays frames, or has a place for reasoning.
func (s *incoming) begins(event provider.Event) bool {
	return event.Content() || event.Native != nil && (event.Output() || s.x.request.Relay != nil) ||
		s.x.request.ShowsReasoning && event.Reasoning != ""
}

// note records an event of the answer, of which size bytes have arrived. The error is that of an answer that exceeded
// its bound.
func (s *incoming) note(event provider.Event, size int) error {
	ended := s.finish != ""
	s.tally.output(&event)
	if event.Content() {
		s.pieces++
	}
	s.calls = s.calls || len(event.ToolCalls) > 0
	if event.Usage != nil {
		s.tally.report(event.Usage)
	}
	if event.FinishReason != "" {
		s.finish = event.FinishReason
	}
	if s.recording != nil && s.attempt.hold.Charge(recorded(event)) != nil {
		s.recording = nil // The cached copy is given up first where memory is short.
	}
	if s.recording != nil {
		s.recording.add(event)
	}
	return s.outgrown(event, ended, size)
}
