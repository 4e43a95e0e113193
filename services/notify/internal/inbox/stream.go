package inbox

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/lifecycle"
	"switchyard.dev/services/platform/panics"
)

// Times of one stream.
const (
	// heartbeat is the longest silence: proxies cut connections that say nothing.
	heartbeat = 15 * time.Second
	// streamLife bounds a stream, so that its reader is authorized again.
	streamLife = 30 * time.Minute
	// readTime bounds one read of the store, with the wait for its turn.
	readTime = 20 * time.Second
)

// Writer takes what a stream has to say. An error of either ends the stream. Both
// must return in bounded time.
type Writer interface {
	Event(e Event) error
	// KeepAlive is called when there was nothing to say for a while.
	KeepAlive() error
}

// Stream is one reader's place in an inbox.
type Stream struct {
	feed *Feed
	at   Address

	// Used only by the goroutine that has the turn.
	ctx   context.Context //nolint:containedctx // A stream is a call that goes on without a goroutine.
	w     Writer
	ended func(error)
	first *Event // nil once it is written
	seq   int64  // of the last event written
	born  time.Time
	spoke time.Time

	closing atomic.Bool
	// Under the feed's lock.
	turning  bool // a goroutine has the turn
	notified bool
}

// step is what a stream does next.
type step int

const (
	rest step = iota
	read
	keepAlive
	end
)

// next decides what a stream does at a time. The feed's lock is held.
func (s *Stream) next(now time.Time) step {
	switch {
	case s.first != nil:
		return read
	case s.closing.Load() || now.Sub(s.born) >= streamLife:
		return end
	case s.notified:
		return read
	case now.Sub(s.spoke) >= heartbeat:
		return keepAlive
	default:
		return rest
	}
}

// Open finds where a stream begins: after is the Seq of the last event that the
// reader has seen, or nil to begin now. Start or Follow must follow.
func (f *Feed) Open(ctx context.Context, at Address, after *int64) (*Stream, error) {
	now := time.Now()
	s := &Stream{feed: f, at: at, born: now, spoke: now, turning: true}
	if err := f.join(s); err != nil { // before the first look, or a change between the two is late
		return nil, err
	}
	first, err := s.begin(ctx, after)
	if err != nil {
		f.leave(s, func() {})
		return nil, err
	}
	s.first, s.seq = &first, first.Seq
	return s, nil
}

// Start writes each change of the inbox, in their order, none left out and none
// twice, until ctx or the stream is ended, the writer fails, the replica drains or
// the stream has lived long enough. The first event is `ready`, or `reset` when
// what came after the reader's last event isn't known any more. It returns at
// once: ended is called when nothing is written any more, with the store's error
// if it was that.
func (s *Stream) Start(ctx context.Context, w Writer, ended func(error)) {
	s.ctx, s.w, s.ended = ctx, w, ended
	go s.turn()
}

// End ends the stream after what it is writing.
func (s *Stream) End() {
	s.closing.Store(true)
	s.feed.count(s.wake)
}

// Follow is Start for callers who wait until the stream has ended, which it also
// does with ctx.
func (s *Stream) Follow(ctx context.Context, w Writer) error {
	defer context.AfterFunc(ctx, s.End)()
	done := make(chan error, 1)
	s.Start(ctx, w, func(err error) { done <- err })
	return <-done
}

// wake gives a stream the turn, unless it has it. The feed's lock is held.
func (s *Stream) wake() {
	if !s.turning {
		s.turning = true
		go s.turn()
	}
}

// turn does what there is to do.
func (s *Stream) turn() {
	for {
		next := s.take()
		if next == rest {
			return
		}
		err := s.do(next)
		if err != nil || next == end { // It keeps the turn: there is no other one.
			s.feed.leave(s, func() { s.ended(s.shown(err)) })
			return
		}
	}
}

// take gives what is to be done, and gives up the turn when that is nothing.
func (s *Stream) take() step {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	next := s.next(time.Now())
	s.notified = s.notified && next != read
	s.turning = next != rest
	return next
}

// do keeps a panic of one stream from ending the others.
func (s *Stream) do(next step) error {
	err := lifecycle.Protect(s.ctx, "inbox stream", func() error {
		switch next {
		case read:
			return s.catchUp()
		case keepAlive:
			return s.say(s.w.KeepAlive())
		default:
			return nil
		}
	})
	if errors.Is(err, panics.Err) {
		return apierr.Internal(err)
	}
	return err
}

// readerError wraps a failure of the reader, which is no error of the service.
type readerError struct{ error }

// shown hides what isn't the store's failure.
func (s *Stream) shown(err error) error {
	if _, left := errors.AsType[readerError](err); !left && s.ctx.Err() == nil {
		return err
	}
	return nil
}

// say notes that the writer was used.
func (s *Stream) say(err error) error {
	if err != nil {
		return readerError{err}
	}
	s.spoke = time.Now()
	return nil
}

func (s *Stream) write(e Event) error {
	if err := s.say(s.w.Event(e)); err != nil {
		return err
	}
	s.seq = e.Seq
	return nil
}

// begin gives the event that a stream starts with.
func (s *Stream) begin(ctx context.Context, after *int64) (Event, error) {
	place, err := s.feed.events.Place(ctx, s.at)
	if err != nil {
		return Event{}, err
	}
	if after == nil || *after == place.Seq {
		return Event{Seq: place.Seq, Kind: EventReady, Unread: place.Unread, At: time.Now()}, nil
	}
	start, known, err := s.resume(ctx, *after)
	if err == nil && !known {
		return s.reset(ctx)
	}
	return start, err
}

// resume finds the event that a reader has seen last, with the count after it.
func (s *Stream) resume(ctx context.Context, after int64) (Event, bool, error) {
	if after == 0 { // an inbox as it was before its first change
		return Event{Kind: EventReady, At: time.Now()}, true, nil
	}
	seen, err := s.feed.events.Events(ctx, s.at, after-1, 1)
	if err != nil || len(seen) == 0 || seen[0].Seq != after {
		return Event{}, false, err
	}
	return Event{Seq: after, Kind: EventReady, Unread: seen[0].Unread, At: seen[0].At}, true, nil
}

// reset is the event after which a stream goes on from where the inbox stands now.
func (s *Stream) reset(ctx context.Context) (Event, error) {
	place, err := s.feed.events.Place(ctx, s.at)
	return Event{Seq: place.Seq, Kind: EventReset, Unread: place.Unread, At: time.Now()}, err
}

// catchUp writes all that came since the last event, page by page.
func (s *Stream) catchUp() error {
	if s.first != nil {
		if err := s.write(*s.first); err != nil {
			return err
		}
		s.first = nil
	}
	for {
		page, err := s.page()
		if err != nil {
			return err
		}
		for _, e := range page {
			if s.closing.Load() {
				return nil
			}
			if err := s.write(e); err != nil {
				return err
			}
		}
		if len(page) < pageSize {
			return nil
		}
	}
}

// page reads the changes after the last event. A number that is missing was purged,
// or is of a release that wrote no events.
func (s *Stream) page() ([]Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, readTime)
	defer cancel()
	select {
	case s.feed.reading <- struct{}{}:
		defer func() { <-s.feed.reading }()
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to read events: %w", ctx.Err())
	}
	page, err := s.feed.events.Events(ctx, s.at, s.seq, pageSize)
	for i, e := range page {
		if e.Seq != s.seq+int64(i)+1 {
			gone, err := s.reset(ctx)
			return append(page[:i:i], gone), err
		}
	}
	return page, err
}
