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

// Intervals of one stream.
const (
	// heartbeat is the longest silence: proxies close idle connections.
	heartbeat = 15 * time.Second
	// streamLife bounds a stream, so that its reader is authorized again.
	streamLife = 30 * time.Minute
	// readTime bounds one read of the store, including the wait for a free read slot.
	readTime = 20 * time.Second
)

// Writer writes the events of a stream. An error ends the stream. Both methods must return in bounded time.
type Writer interface {
	Event(e Event) error
	// KeepAlive is called after a time without events.
	KeepAlive() error
}

// Stream is one reader of an inbox.
type Stream struct {
	feed *Feed
	at   Address

	// Used only by the stream's running goroutine.
	ctx       context.Context //nolint:containedctx // A stream is a call without a goroutine of its own.
	w         Writer
	ended     func(error)
	first     *Event // nil once it is written
	seq       int64  // of the last event written
	born      time.Time
	lastWrite time.Time

	closing atomic.Bool
	// Protected by the feed's lock.
	running  bool // a goroutine is running
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

// next decides what a stream does at a time. The caller holds the feed's lock.
func (s *Stream) next(now time.Time) step {
	switch {
	case s.first != nil:
		return read
	case s.closing.Load() || now.Sub(s.born) >= streamLife:
		return end
	case s.notified:
		return read
	case now.Sub(s.lastWrite) >= heartbeat:
		return keepAlive
	default:
		return rest
	}
}

// Open determines where a stream begins: after is the Seq of the last event that the reader has seen, or nil to begin
// now. Start or Follow must be called next.
func (f *Feed) Open(ctx context.Context, at Address, after *int64) (*Stream, error) {
	now := time.Now()
	s := &Stream{feed: f, at: at, born: now, lastWrite: now, running: true}
	if err := f.join(s); err != nil { // before the first read: a change between the two would be late otherwise
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

// Start writes each change of the inbox, in order, none omitted and none twice, until ctx or the stream ends, the
// writer fails, the replica drains or the stream has reached its maximum age. The first event is `ready`, or `reset`
// if the changes after the reader's last event are no longer stored. Start returns at once; ended is called after the
// last write, with the store's error if there was one.
func (s *Stream) Start(ctx context.Context, w Writer, ended func(error)) {
	s.ctx, s.w, s.ended = ctx, w, ended
	go s.run()
}

// End ends the stream after the current write.
func (s *Stream) End() {
	s.closing.Store(true)
	s.feed.count(s.wake)
}

// Follow is Start for callers that wait for the end of the stream, which also comes with ctx.
func (s *Stream) Follow(ctx context.Context, w Writer) error {
	defer context.AfterFunc(ctx, s.End)()
	done := make(chan error, 1)
	s.Start(ctx, w, func(err error) { done <- err })
	return <-done
}

// wake starts the stream's goroutine unless it is running. The caller holds the feed's lock.
func (s *Stream) wake() {
	if !s.running {
		s.running = true
		go s.run()
	}
}

// run does what is due, until nothing is.
func (s *Stream) run() {
	for {
		next := s.take()
		if next == rest {
			return
		}
		err := s.do(next)
		if err != nil || next == end { // The stream stays marked as running: it never runs again.
			s.feed.leave(s, func() { s.ended(s.shown(err)) })
			return
		}
	}
}

// take returns what is due, and marks the stream as not running if nothing is.
func (s *Stream) take() step {
	s.feed.mu.Lock()
	defer s.feed.mu.Unlock()
	next := s.next(time.Now())
	s.notified = s.notified && next != read
	s.running = next != rest
	return next
}

// do recovers a panic, so that it ends no other stream.
func (s *Stream) do(next step) error {
	err := lifecycle.Protect(s.ctx, "inbox stream", func() error {
		switch next {
		case read:
			return s.catchUp()
		case keepAlive:
			return s.wrote(s.w.KeepAlive())
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

// shown returns only errors of the store.
func (s *Stream) shown(err error) error {
	if _, left := errors.AsType[readerError](err); !left && s.ctx.Err() == nil {
		return err
	}
	return nil
}

// wrote records that the writer was used.
func (s *Stream) wrote(err error) error {
	if err != nil {
		return readerError{err}
	}
	s.lastWrite = time.Now()
	return nil
}

func (s *Stream) write(e Event) error {
	if err := s.wrote(s.w.Event(e)); err != nil {
		return err
	}
	s.seq = e.Seq
	return nil
}

// begin returns the first event of a stream.
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

// resume returns the event that a reader has seen last, with the unread count after it.
func (s *Stream) resume(ctx context.Context, after int64) (Event, bool, error) {
	if after == 0 { // the state before the first change
		return Event{Kind: EventReady, At: time.Now()}, true, nil
	}
	seen, err := s.feed.events.Events(ctx, s.at, after-1, 1)
	if err != nil || len(seen) == 0 || seen[0].Seq != after {
		return Event{}, false, err
	}
	return Event{Seq: after, Kind: EventReady, Unread: seen[0].Unread, At: seen[0].At}, true, nil
}

// reset returns the event after which a stream continues from the inbox's current position.
func (s *Stream) reset(ctx context.Context) (Event, error) {
	place, err := s.feed.events.Place(ctx, s.at)
	return Event{Seq: place.Seq, Kind: EventReset, Unread: place.Unread, At: time.Now()}, err
}

// catchUp writes all events since the last one, page by page.
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

// page reads the changes after the last event. A missing number was purged, or belongs to a release that stored no
// events.
func (s *Stream) page() ([]Event, error) {
	ctx, cancel := context.WithTimeout(s.ctx, readTime)
	defer cancel()
	release, err := s.feed.reading.Acquire(ctx, s.at.Organization)
	if err != nil {
		return nil, fmt.Errorf("wait to read events: %w", err)
	}
	defer release()
	page, err := s.feed.events.Events(ctx, s.at, s.seq, pageSize)
	for i, e := range page {
		if e.Seq != s.seq+int64(i)+1 {
			gone, err := s.reset(ctx)
			return append(page[:i:i], gone), err
		}
	}
	return page, err
}
