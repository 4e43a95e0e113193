package inference

import (
	"context"
	"errors"
	"io"
	"time"

	"switchyard.dev/services/gateway/internal/ledger"
	"switchyard.dev/services/gateway/internal/provider"
	"switchyard.dev/services/platform/apierr"
)

// Stream is an answer as it arrives. It begins once a provider has sent
// content: until then a failure moves on to the next candidate, after it never.
// The caller calls Close, whatever happened. Not safe for concurrent use.
type Stream struct {
	x   *execution
	ctx context.Context //nolint:containedctx // The request's own: the stream is the rest of that call.
	// release ends the total clock.
	release context.CancelFunc

	upstream provider.Stream
	cancel   context.CancelCauseFunc
	idle     *time.Timer
	route    Route

	held   *provider.Event
	tally  tally
	finish provider.FinishReason
	calls  bool
	ended  bool // the provider has said everything

	settled bool
	report  Report
	err     error // what Next returns from now on
}

// StreamChat serves an answer as a stream.
func (e *Engine) StreamChat(ctx context.Context, r *Request) (*Stream, error) {
	x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	s := &Stream{x: x, ctx: ctx}
	bounded, release := x.bound(ctx)
	s.release = release
	if err := x.try(bounded, s.open); err != nil {
		release()
		return nil, err
	}
	s.route = x.route()
	return s, nil
}

// open starts a stream at a candidate and reads up to its first content.
func (s *Stream) open(ctx context.Context, c candidate, grace time.Duration) error {
	start := time.Now()
	ctx, cancel := context.WithCancelCause(ctx)
	clock := time.AfterFunc(s.x.Clocks.FirstToken*grace, func() { cancel(errFirstToken) })
	var upstream provider.Stream
	chatter, err := c.chatter()
	if err == nil {
		upstream, err = chatter.StreamChat(ctx, c.credential, s.x.chat(c))
	}
	if err == nil {
		err = s.hold(upstream)
	}
	if inTime := clock.Stop(); err == nil && !inTime {
		err = &provider.Error{Class: apierr.ClassTransient, Text: errFirstToken.Error()}
	}
	if err != nil {
		cancel(err)
		if upstream != nil {
			_ = upstream.Close()
		}
		return err
	}
	s.x.metrics.first(ctx, c.Provider, time.Since(start))
	s.upstream, s.cancel = upstream, cancel
	s.idle = time.AfterFunc(s.x.Clocks.Idle, func() { cancel(errIdle) })
	return nil
}

// hold reads until the first event that carries content. A stream that ends
// before it, and says why, is an empty answer; one that just ends is a failure.
func (s *Stream) hold(upstream provider.Stream) error {
	s.held, s.tally, s.finish, s.calls, s.ended = nil, tally{}, "", false, false
	for {
		event, err := upstream.Next()
		switch {
		case errors.Is(err, io.EOF) && s.finish != "":
			s.ended = true
			return nil
		case errors.Is(err, io.EOF):
			return &provider.Error{Class: apierr.ClassTransient, Text: "the stream ended before it began"}
		case err != nil:
			return err
		}
		s.note(event)
		if event.Content() {
			s.held = &event
			return nil
		}
	}
}

// note keeps what an event says about the whole.
func (s *Stream) note(event provider.Event) {
	s.tally.bytes += len(event.Text)
	s.tally.add(event.ToolCalls)
	s.calls = s.calls || len(event.ToolCalls) > 0
	if event.Usage != nil {
		s.tally.usage = event.Usage
	}
	if event.FinishReason != "" {
		s.finish = event.FinishReason
	}
}

// Route says who serves the stream.
func (s *Stream) Route() Route { return s.route }

// Next gives the next event that carries content. After the last one it records
// the completion and returns io.EOF; any other error is an *apierr.Error.
func (s *Stream) Next() (provider.Event, error) {
	if s.held != nil {
		event := *s.held
		s.held = nil
		return event, nil
	}
	for !s.ended && s.err == nil {
		event, err := s.upstream.Next()
		switch {
		case errors.Is(err, io.EOF):
			s.ended = true
		case err != nil:
			s.fail(err)
		default:
			s.idle.Reset(s.x.Clocks.Idle)
			s.note(event)
			if event.Content() {
				return event, nil
			}
		}
	}
	if s.err == nil {
		s.settle(ledger.OutcomeCompleted)
		s.err = io.EOF
	}
	return provider.Event{}, s.err
}

// fail ends a stream that has begun: what came is billed.
func (s *Stream) fail(err error) {
	f := newFailure(s.x.served, err)
	if s.ctx.Err() != nil {
		s.settle(ledger.OutcomeCancelled)
		s.err = ended(s.ctx)
		return
	}
	s.x.failed(s.ctx, f)
	s.settle(ledger.OutcomeInterrupted)
	s.err = interrupted(f)
}

// settle records the completion, once, after the upstream call has ended.
func (s *Stream) settle(outcome ledger.Outcome) {
	s.settled = true
	s.stop()
	s.report = s.x.settle(s.ctx, outcome, s.tally)
}

func (s *Stream) stop() {
	s.idle.Stop()
	s.cancel(errLeft)
	_ = s.upstream.Close()
	s.release()
}

// FinishReason is why the answer ended, known after io.EOF.
func (s *Stream) FinishReason() provider.FinishReason { return finishReason(s.finish, s.calls) }

// Report is what the answer used, known after io.EOF.
func (s *Stream) Report() Report { return s.report }

// Close ends the upstream call of a stream that was not read to its end, and
// bills what came.
func (s *Stream) Close() {
	if !s.settled {
		s.settle(ledger.OutcomeCancelled)
	}
}
