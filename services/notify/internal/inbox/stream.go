package inbox

import (
	"context"
	"errors"
	"time"
)

// Times of one stream.
const (
	// heartbeat is the longest silence: proxies cut connections that say nothing.
	heartbeat = 15 * time.Second
	// streamLife bounds a stream, so that its reader is authorized again.
	streamLife = 30 * time.Minute
)

// Writer takes what a stream has to say. An error of either ends the stream.
type Writer interface {
	Event(e Event) error
	// Beat is called when there was nothing to say for a while.
	Beat() error
}

// Follow writes each change of an inbox after a place, in their order, none left
// out and none twice, until ctx ends, the writer fails, the replica drains or the
// stream has lived long enough; all but errors of the store are nil. after is the
// Seq of the last event that the reader has seen, or nil to begin now. The first
// event is `ready`, or `reset` when what came after that Seq isn't known any more.
func (f *Feed) Follow(ctx context.Context, at Address, after *int64, w Writer) error {
	bell, leave, err := f.listen(at) // before the first look, or a change between the two is late
	if err != nil {
		return err
	}
	defer leave()
	s := stream{feed: f, at: at, w: w}
	if err := s.begin(ctx, after); err != nil {
		return ended(ctx, err)
	}
	return ended(ctx, s.run(ctx, bell))
}

// readerError wraps a failure of the reader, which is no error of the service.
type readerError struct{ error }

// ended hides what isn't the store's failure.
func ended(ctx context.Context, err error) error {
	if _, left := errors.AsType[readerError](err); !left && ctx.Err() == nil {
		return err
	}
	return nil
}

// stream is one reader's place in an inbox.
type stream struct {
	feed *Feed
	at   Address
	w    Writer
	seq  int64 // of the last event written
}

func (s *stream) write(e Event) error {
	if err := s.w.Event(e); err != nil {
		return readerError{err}
	}
	s.seq = e.Seq
	return nil
}

// begin says where the stream starts.
func (s *stream) begin(ctx context.Context, after *int64) error {
	place, err := s.feed.events.Place(ctx, s.at)
	if err != nil {
		return err
	}
	if after == nil || *after == place.Seq {
		return s.write(Event{Seq: place.Seq, Kind: EventReady, Unread: place.Unread, At: time.Now()})
	}
	start, known, err := s.resume(ctx, *after)
	switch {
	case err != nil:
		return err
	case !known:
		return s.reset(ctx)
	}
	return s.write(start)
}

// resume finds the event that a reader has seen last, with the count after it.
func (s *stream) resume(ctx context.Context, after int64) (Event, bool, error) {
	if after == 0 { // an inbox as it was before its first change
		return Event{Kind: EventReady, At: time.Now()}, true, nil
	}
	seen, err := s.feed.events.Events(ctx, s.at, after-1, 1)
	if err != nil || len(seen) == 0 || seen[0].Seq != after {
		return Event{}, false, err
	}
	return Event{Seq: after, Kind: EventReady, Unread: seen[0].Unread, At: seen[0].At}, true, nil
}

// reset goes on from where the inbox stands now.
func (s *stream) reset(ctx context.Context) error {
	place, err := s.feed.events.Place(ctx, s.at)
	if err != nil {
		return err
	}
	return s.write(Event{Seq: place.Seq, Kind: EventReset, Unread: place.Unread, At: time.Now()})
}

// run writes changes as they come.
func (s *stream) run(ctx context.Context, bell <-chan struct{}) error {
	life := time.NewTimer(streamLife)
	defer life.Stop()
	silence := time.NewTimer(heartbeat)
	defer silence.Stop()
	for {
		wrote, err := s.catchUp(ctx)
		if err != nil {
			return err
		}
		if wrote {
			silence.Reset(heartbeat)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-s.feed.drained:
			return nil
		case <-life.C:
			return nil
		case <-bell:
		case <-silence.C:
			if err := s.w.Beat(); err != nil {
				return readerError{err}
			}
			silence.Reset(heartbeat)
		}
	}
}

// catchUp writes all that came since the last event, page by page.
func (s *stream) catchUp(ctx context.Context) (wrote bool, err error) {
	for {
		page, err := s.feed.events.Events(ctx, s.at, s.seq, pageSize)
		if err != nil {
			return wrote, err
		}
		for _, e := range page {
			if e.Seq != s.seq+1 { // purged, or of a release that wrote no events
				return true, s.reset(ctx)
			}
			if err := s.write(e); err != nil {
				return wrote, err
			}
		}
		wrote = wrote || len(page) > 0
		if len(page) < pageSize {
			return wrote, nil
		}
	}
}
