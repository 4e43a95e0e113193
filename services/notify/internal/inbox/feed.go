package inbox

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
	"switchyard.dev/services/platform/fairshare"
	"switchyard.dev/services/platform/lifecycle"
)

// Intervals and bounds of streams.
const (
	// pollEvery is how late a change may arrive whose notification was lost.
	pollEvery = 2 * time.Second
	// pollBatch bounds the inboxes of one poll.
	pollBatch = 5000
	// sweepEvery is how late a keep-alive or the end of a stream may be.
	sweepEvery = 500 * time.Millisecond
	// pageSize is how many changes are read at a time; a stream holds no more in memory.
	pageSize = 100
	// mostReading bounds the streams that read concurrently, so that a change that all of them follow leaves
	// connections of the store to others. One organization's streams get at most readingShare percent of these reads.
	mostReading, readingShare = 8, 50
	// settleCheck is the interval at which a drain checks for remaining streams.
	settleCheck = 10 * time.Millisecond
)

// Errors for streams that are refused.
var (
	// ErrTooMany reports that this replica serves as many streams as allowed.
	ErrTooMany = apierr.Unavailable("too many streams are open here; try again", nil)
	// ErrShare reports that this replica serves as many streams of the organization as allowed.
	ErrShare = &apierr.Error{
		Kind: apierr.KindRateLimited, Reason: apierr.ReasonRateLimited, Class: apierr.ClassTransient, RetryAfter: 5 * time.Second,
		Text: "the organization has as many streams open here as allowed; try again when one has ended",
	}
)

// Feed follows inboxes for the streams of this replica. A change is committed before its streams are notified. A
// notification only means that there is something to read, so a lost one costs time and nothing else.
//
// A stream without events is an entry here and has no goroutine, timer or buffer. A notification or a sweep starts a
// goroutine for it, for as long as it has events to write, so that a slow reader does not delay others.
type Feed struct {
	events  Events
	log     *slog.Logger
	open    *fairshare.Pool
	reading *fairshare.Places

	mu       sync.Mutex
	drained  bool
	followed map[Address]*followed
	ending   int // ended, while their reader is notified
}

// followed is an inbox that streams read.
type followed struct {
	streams map[*Stream]struct{}
	// seq is the position at the last poll.
	seq int64
}

// NewFeed returns a Feed of at most that many streams. One organization may have fairshare.DefaultPercent percent of
// them. Its Run must be running.
func NewFeed(events Events, most int, log *slog.Logger) *Feed {
	return &Feed{
		events: events, log: log, open: fairshare.New(int64(most), fairshare.DefaultPercent),
		reading: fairshare.NewPlaces(mostReading, readingShare), followed: map[Address]*followed{},
	}
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

// join adds a stream, which has its goroutine already.
func (f *Feed) join(s *Stream) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.open.Acquire(s.at.Organization, 1) {
		if f.open.Held() < f.open.Limit() {
			return ErrShare
		}
		return ErrTooMany
	}
	inbox, ok := f.followed[s.at]
	if !ok {
		inbox = &followed{streams: make(map[*Stream]struct{}, 1)}
		f.followed[s.at] = inbox
	}
	inbox.streams[s] = struct{}{}
	s.closing.Store(f.drained)
	return nil
}

// leave removes a stream. The feed is not idle before closed has returned.
func (f *Feed) leave(s *Stream, closed func()) {
	f.count(func() {
		f.open.Release(s.at.Organization, 1)
		f.ending++
		inbox := f.followed[s.at]
		if delete(inbox.streams, s); len(inbox.streams) == 0 {
			delete(f.followed, s.at)
		}
	})
	closed()
	f.count(func() { f.ending-- })
}

func (f *Feed) count(change func()) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change()
}

// Streams returns how many streams are open.
func (f *Feed) Streams() int { return int(f.open.Held()) }

// Drain ends all streams, including later ones, and waits until their readers have been notified, at most until ctx
// ends; they resume at another replica.
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
		f.count(func() { left = f.Streams() + f.ending })
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

// Run sends keep-alives, ends streams in time, and polls for lost notifications: it notifies the streams of inboxes
// that have changed since the last poll. It returns when ctx has ended and all streams with it.
func (f *Feed) Run(ctx context.Context) error {
	var work sync.WaitGroup
	work.Go(func() { f.every(ctx, pollEvery, func() { f.poll(ctx) }) })
	work.Go(func() { f.every(ctx, sweepEvery, f.sweep) })
	work.Wait()
	return f.Drain(context.WithoutCancel(ctx))
}

// every runs do at an interval until ctx ends. It continues after a panic of do.
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

// sweep wakes the streams with something due.
func (f *Feed) sweep() {
	now := time.Now()
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, inbox := range f.followed {
		for s := range inbox.streams {
			if !s.running && s.next(now) != rest {
				s.wake()
			}
		}
	}
}

// poll polls all followed inboxes, batch by batch.
func (f *Feed) poll(ctx context.Context) {
	for _, known := range f.known() {
		changed, err := f.events.Changed(ctx, known)
		if err != nil {
			if ctx.Err() == nil {
				f.log.WarnContext(ctx, "inboxes could not be polled", slog.String("error", err.Error()))
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
