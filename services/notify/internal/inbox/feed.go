package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/lifecycle"
)

// Times and bounds of streams.
const (
	// pollEvery is how late a change may come when no notification came for it.
	pollEvery = 2 * time.Second
	// pollBatch bounds the inboxes of one look.
	pollBatch = 5000
	// sweepEvery is how late a keep-alive or the end of a stream may be.
	sweepEvery = 500 * time.Millisecond
	// pageSize is how many changes are read at a time, which is all that a stream
	// holds in memory.
	pageSize = 100
	// mostReading bounds the streams that read at a time: one change that all
	// follow leaves connections of the store to others.
	mostReading = 8
	// settleCheck is how often a drain looks whether streams are left.
	settleCheck = 10 * time.Millisecond
)

// ErrTooMany says that this replica follows as many inboxes as it may.
var ErrTooMany = apierr.Unavailable("too many streams are open here; try again", nil)

// Feed follows inboxes for the streams of this replica. A change is committed
// before its streams are notified: a notification only says that there is something
// to read, so one that is lost costs time and nothing else.
//
// A stream that has nothing to do is an entry here and has no goroutine, timer or
// buffer. A notification or a sweep gives it a turn: a goroutine of its own for as
// long as it has something to write, so that a slow reader doesn't hold up others.
type Feed struct {
	events  Events
	log     *slog.Logger
	most    int
	reading chan struct{}

	mu       sync.Mutex
	drained  bool
	followed map[Address]*followed
	streams  int // open
	ending   int // ended, and being told so
}

// followed is an inbox that streams read.
type followed struct {
	streams map[*Stream]struct{}
	// seq is where the last look found it.
	seq int64
}

// NewFeed returns a feed of at most that many streams. Run keeps it going.
func NewFeed(events Events, most int, log *slog.Logger) *Feed {
	return &Feed{events: events, log: log, most: most, reading: make(chan struct{}, mostReading), followed: map[Address]*followed{}}
}

// Notify wakes the streams of an inbox that has changed.
func (f *Feed) Notify(at Address) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if inbox, ok := f.followed[at]; ok {
		inbox.notify()
	}
}

// notify wakes the inbox's streams. The caller holds the feed's lock.
func (i *followed) notify() {
	for s := range i.streams {
		s.notified = true
		s.wake()
	}
}

// join counts a stream in, which has the turn.
func (f *Feed) join(s *Stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams >= f.most {
		return ErrTooMany
	}
	f.streams++
	inbox, ok := f.followed[s.at]
	if !ok {
		inbox = &followed{streams: make(map[*Stream]struct{}, 1)}
		f.followed[s.at] = inbox
	}
	inbox.streams[s] = struct{}{}
	s.closing.Store(f.drained)
	return nil
}

// leave gives up a stream's place. Until farewell has returned the feed isn't idle.
func (f *Feed) leave(s *Stream, farewell func()) {
	f.count(func() {
		f.streams--
		f.ending++
		inbox := f.followed[s.at]
		if delete(inbox.streams, s); len(inbox.streams) == 0 {
			delete(f.followed, s.at)
		}
	})
	farewell()
	f.count(func() { f.ending-- })
}

func (f *Feed) count(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Streams is how many are open.
func (f *Feed) Streams() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams
}

// Drain ends all streams, those to come too, and waits until their readers have
// been told, at most until ctx ends; they resume at another replica.
func (f *Feed) Drain(ctx context.Context) error {
	f.count(func() {
		f.drained = true
		for _, inbox := range f.followed {
			for s := range inbox.streams {
				s.closing.Store(true)
				s.wake()
			}
		}
	})
	return f.settle(ctx)
}

// settle waits until no stream is left.
func (f *Feed) settle(ctx context.Context) error {
	for {
		var left int
		f.count(func() { left = f.streams + f.ending })
		if left == 0 {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%d inbox streams cut: %w", left, context.Cause(ctx))
		case <-time.After(settleCheck):
		}
	}
}

// Run sends streams their keep-alives, ends them in time, and finds notices that
// were lost: the streams of an inbox that has changed since the last look are notified. It
// returns when ctx has ended and with it the last stream.
func (f *Feed) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { f.every(ctx, pollEvery, func() { f.look(ctx) }) })
	work.Go(func() { f.every(ctx, sweepEvery, f.sweep) })
	work.Wait()
	return f.Drain(context.WithoutCancel(ctx))
}

// every does something at an interval until ctx ends, also after a panic of it.
func (f *Feed) every(ctx context.Context, interval time.Duration, do func()) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		err := lifecycle.Protect(ctx, "inbox feed", func() error {
			do()
			return nil
		})
		if err != nil {
			f.log.ErrorContext(ctx, "inbox feed panicked", slog.String("error", err.Error()))
		}
	}
}

// sweep gives a turn to the streams for which it is time.
func (f *Feed) sweep() {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, inbox := range f.followed {
		for s := range inbox.streams {
			if !s.turning && s.next(now) != rest {
				s.wake()
			}
		}
	}
}

// look asks for all followed inboxes at once, batch by batch.
func (f *Feed) look(ctx context.Context) {
	for _, known := range f.known() {
		changed, err := f.events.Changed(ctx, known)
		if err != nil {
			if ctx.Err() == nil {
				f.log.WarnContext(ctx, "inboxes not looked at", slog.String("error", err.Error()))
			}
			return
		}
		f.note(changed)
	}
}

func (f *Feed) known() []map[Address]int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	var batches []map[Address]int64
	for at, inbox := range f.followed {
		if len(batches) == 0 || len(batches[len(batches)-1]) >= pollBatch {
			batches = append(batches, map[Address]int64{})
		}
		batches[len(batches)-1][at] = inbox.seq
	}
	return batches
}

func (f *Feed) note(changed map[Address]int64) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for at, seq := range changed {
		if inbox, ok := f.followed[at]; ok {
			inbox.seq = seq
			inbox.notify()
		}
	}
}
