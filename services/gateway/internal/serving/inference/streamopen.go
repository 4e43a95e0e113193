package inference

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"time"

	"switchyard.dev/services/gateway/internal/vendors/provider"
	"switchyard.dev/services/platform/apierr"
)

// open starts a stream at a candidate and reads up to its first content.
func (s *Stream) open(ctx context.Context, c candidate, grace time.Duration) error {
	start := time.Now()
	s.most, s.tally = s.x.boundAt(&c), tally{written: s.x.transcript(&c)}
	ctx, cancel := context.WithCancelCause(ctx)
	clock := newStreamTimer(cancel, s.x.engine.Clocks.first(s.x.request)*grace, s.x.engine.Clocks.Idle)
	upstream, err := s.dial(ctx, c)
	if err == nil {
		err = s.hold(upstream, clock)
	}
	if err == nil && !clock.restart() {
		err = &provider.Error{Class: apierr.ClassTransient, Text: errFirstToken.Error(), Cause: errFirstToken}
	}
	if err != nil {
		s.x.arrived = s.tally
		clock.stop()
		cancel(err)
		if upstream != nil {
			_ = upstream.Close()
		}
		return err
	}
	s.x.permit.Begin(ctx)
	s.began = time.Now()
	s.x.record.began(s.began)
	s.x.engine.metrics.first(ctx, s.x.call.label, s.began.Sub(start))
	s.upstream, s.cancel, s.timer = upstream, cancel, clock
	return nil
}

// dial makes the call and returns once the vendor's response head has arrived.
func (s *Stream) dial(ctx context.Context, c candidate) (provider.Stream, error) {
	if s.x.request.Relay != nil {
		return s.relay(ctx, c)
	}
	p, err := c.chatProvider()
	if err != nil {
		return nil, err
	}
	chat, err := s.x.chat(ctx, c)
	if err != nil {
		return nil, err
	}
	upstream, err := p.StreamChat(ctx, c.credential, chat)
	if err != nil {
		return nil, err
	}
	s.x.answered = true
	if limited, ok := upstream.(provider.LimitedStream); ok {
		s.x.permit.Learn(limited.Limits())
	}
	return &callStream{Stream: upstream, hold: s.x.hold, kept: s.x.request.KeepsAnswer}, nil
}

// maxHeld bounds the frames that are held before the first content, in bytes: after so many the vendor's answer has
// begun, whatever it contains.
const maxHeld = 64 << 10

// hold reads until the first event that carries content, and keeps the vendor's frames before it for a face that relays
// them. A stream that ends before it with a finish reason is an empty answer; one without is a failure.
func (s *Stream) hold(upstream provider.Stream, clock *streamTimer) error {
	s.held, s.finish, s.calls, s.ended, s.pieces = nil, "", false, false, 0
	if s.recording != nil {
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
func (s *Stream) begins(event provider.Event) bool {
	return event.Content() || event.Native != nil && (event.Output() || s.x.request.Relay != nil) ||
		s.x.request.ShowsReasoning && event.Reasoning != ""
}
