package inference

import (
	"context"
	"errors"
	"io"
	"time"

	"switchyard.dev/services/gateway/internal/capacity/memory"
	"switchyard.dev/services/gateway/internal/money/ledger"
	"switchyard.dev/services/gateway/internal/serving/health"
	"switchyard.dev/services/gateway/internal/serving/trace"
	"switchyard.dev/services/gateway/internal/vendors/provider"
)

// Stream is an answer as it arrives. It begins once a provider has sent content: before that a failure moves on to the
// next candidate, afterwards it ends the stream. The caller must call Close. Not safe for concurrent use.
type Stream struct {
	incoming

	// release ends the total clock.
	release context.CancelFunc
	route   Route

	// approvals withholds tool calls until they are approved; nil where none needs an approval. passed are the events that
	// it passed on; withheld is the error with which it ended the stream.
	approvals *approvalCheck
	passed    []provider.Event
	withheld  error

	settled bool
	report  ledger.Report
	err     error // what Next returns from now on
}

// StreamChat serves an answer as a stream.
func (e *Engine) StreamChat(ctx context.Context, r *Request) (*Stream, error) {
	ctx, x, err := e.begin(ctx, r)
	if err != nil {
		return nil, err
	}
	if r.events() {
		x.record.streams()
	}
	begun := false
	defer func() {
		if !begun {
			x.leaveUnserved(ctx)
		}
	}()
	if answer := x.recall(ctx, true); answer != nil {
		begun = true
		return x.replayStream(ctx, answer), nil
	}
	x.streams = true
	s := &Stream{incoming: incoming{x: x, ctx: ctx}, approvals: x.tools.newCheck(x.hold)}
	bounded, release := context.WithDeadlineCause(ctx, x.deadline(x.engine.Clocks), errTotal)
	s.release = release
	if err := x.try(bounded, s.open); err != nil {
		release()
		return nil, err
	}
	begun = true
	if r := x.present.racer; r != nil {
		s.incoming = *r.incoming
	}
	s.route = x.route()
	return s, nil
}

// open opens the stream of an attempt. One that another attempt may outrun has a place of its own for it.
func (s *Stream) open(ctx context.Context, a *attempt) error {
	if a.racer == nil {
		return s.incoming.open(ctx, a)
	}
	a.racer.incoming = &incoming{x: s.x, ctx: s.ctx}
	return a.racer.incoming.open(ctx, a)
}

// Route returns how the stream is served.
func (s *Stream) Route() Route { return s.route }

// Buffered reports whether Next returns without waiting: not for the vendor, nor for an approval, nor until the
// completion is recorded. A caller that writes events on may write several at once until it is false.
func (s *Stream) Buffered() bool {
	switch {
	case len(s.passed) > 0:
		return true
	case s.approvals != nil || s.err != nil:
		return false
	case len(s.held) > 0:
		return true
	}
	return s.buffered && !s.ended
}

// Next returns the next event. It waits only if no event is buffered, and returns an event that shows nothing rather
// than wait with events behind it. After the last one it records the completion and returns io.EOF; any other error is
// an *apierr.Error.
func (s *Stream) Next() (provider.Event, error) {
	for {
		if len(s.passed) > 0 {
			event := s.passed[0]
			s.passed = s.passed[1:]
			s.x.record.received(event)
			return event, nil
		}
		s.approvals.settle(len(s.passed))
		if s.withheld != nil && s.err == nil {
			s.tally.whole = s.ended
			s.x.record.failed(s.withheld)
			s.settle(ledger.OutcomeAborted)
			s.err = s.withheld
		}
		if s.err != nil {
			return provider.Event{}, s.err
		}
		event, more := s.read()
		switch {
		case s.err != nil:
		case more && s.refuseImages(event):
		case more && (s.approvals == nil || !s.x.request.Shows(event)):
			s.x.record.received(event)
			return event, nil
		case more:
			s.passed, s.withheld = s.approvals.pass(s.ctx, event)
		default:
			s.complete()
		}
	}
}

// refuseImages ends the stream if an event has images and the caller's form has no place for them. It reports whether
// it did.
func (s *Stream) refuseImages(event provider.Event) bool {
	if s.err = s.x.request.checkImages(event.Images, event.Native); s.err == nil {
		return false
	}
	s.x.record.failed(s.err)
	s.settle(ledger.OutcomeAborted)
	return true
}

// read returns the next event, which shows something unless the next one has to be waited for; false at the end of the
// answer, or after an error.
func (s *Stream) read() (provider.Event, bool) {
	if len(s.held) > 0 {
		event := s.held[0]
		s.held = s.held[1:]
		return event, true
	}
	for !s.ended && s.err == nil {
		event, err := advance(s.upstream)
		switch {
		case errors.Is(err, io.EOF): // The next call completes the answer, which takes a while.
			s.ended = true
			return provider.Event{}, true
		case err != nil:
			s.fail(err)
		default:
			if !event.Empty() {
				s.timer.restart()
			}
			if event.Output() {
				s.chunk()
			}
			s.buffered = s.upstream.Buffered()
			if s.err = s.note(event, s.upstream.Size()); s.err != nil {
				s.x.record.failed(s.err)
				s.settle(ledger.OutcomeAborted)
				break
			}
			if s.x.request.Shows(event) || !s.buffered {
				return event, true
			}
		}
	}
	return provider.Event{}, false
}

// chunk records the time since the chunk before, the first of which began the answer.
func (s *Stream) chunk() {
	at := time.Since(s.attempt.began)
	s.x.engine.metrics.calls.chunk(s.ctx, s.attempt.call.series, at-s.last)
	s.last = at
}

// complete records an answer that has come to its end, once nothing is held.
func (s *Stream) complete() {
	if s.approvals != nil {
		if s.passed, s.withheld = s.approvals.end(s.ctx); s.withheld != nil || len(s.passed) > 0 {
			return
		}
	}
	if s.answer != nil {
		s.x.record.answered(trace.Answer{Written: s.answer})
	}
	s.settle(ledger.OutcomeCompleted)
	s.keep()
	s.err = io.EOF
}

// advance reads an event, with a panic of the adapter returned as an error.
func advance(upstream provider.Stream) (event provider.Event, err error) {
	defer guard(&err)
	return upstream.Next()
}

// fail ends a stream that has begun. What arrived is billed.
func (s *Stream) fail(err error) {
	f := newFailure(s.x.served, err)
	if s.ctx.Err() != nil {
		s.err = ended(s.ctx)
		s.x.record.failed(s.err)
		s.settle(outcomeOf(s.ctx))
		return
	}
	s.x.failed(s.ctx, f)
	if f.full = errors.Is(err, memory.ErrFull); f.full || errors.Is(err, errTotal) { // The gateway's own memory and clock do not count against the vendor.
		s.attempt.permit.End(s.ctx, health.Verdict{})
	} else {
		s.attempt.permit.Fail(s.ctx, f.Error, false)
	}
	s.err = interrupted(f)
	s.x.record.failed(s.err)
	s.settle(ledger.OutcomeInterrupted)
}

// settle records the completion, once, after the upstream call has ended.
func (s *Stream) settle(outcome ledger.Outcome) {
	s.settled = true
	defer s.x.end(s.ctx)
	if s.x.hit { // No call was made.
		s.report = s.x.settle(s.ctx, outcome, s.tally)
		return
	}
	s.stop()
	s.x.finish = s.finish
	s.x.engine.metrics.calls.streamed(s.ctx, s.attempt.call.series, s.pieces, time.Since(s.attempt.began))
	switch outcome {
	case ledger.OutcomeCompleted:
		s.attempt.permit.End(s.ctx, health.Verdict{Outcome: health.Good})
	case ledger.OutcomeCancelled, ledger.OutcomeAborted:
		s.attempt.permit.End(s.ctx, health.Verdict{})
	case ledger.OutcomeInterrupted: // fail has ended it.
	}
	s.report = s.x.settle(s.ctx, outcome, s.tally)
}

func (s *Stream) stop() {
	s.timer.stop()
	s.cancel(errLeft)
	_ = s.upstream.Close()
	s.release()
}

// FinishReason returns why the answer ended, known after io.EOF.
func (s *Stream) FinishReason() provider.FinishReason { return finishReason(s.finish, s.calls) }

// Report returns what the answer used, known after io.EOF.
func (s *Stream) Report() ledger.Report { return s.report }

// Close ends the upstream call of a stream that was not read to its end, and bills what arrived.
func (s *Stream) Close() {
	if !s.settled {
		if s.ctx.Err() != nil {
			s.x.record.failed(ended(s.ctx))
		}
		s.x.record.failed(context.Canceled)
		s.settle(outcomeOf(s.ctx))
	}
}
