package billing

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"switchyard.dev/services/platform/feed"
	"switchyard.dev/services/platform/lifecycle"
)

const (
	// every is the interval at which the end of the feed is read, pages how many pages at a time.
	every = 500 * time.Millisecond
	pages = 50
	// ahead is how many pages are read to reach a follower that is ahead.
	ahead = 5
	// kept is how many of the latest records stay in memory; up to as many older ones wait for being dropped together.
	kept = 10_000
)

// Tail keeps the latest records of all organizations in memory, so that one read serves every follower near the feed's
// end. A follower that has fallen behind, or wants a past interval, reads the source directly. A Tail is safe for
// concurrent use.
type Tail struct {
	source Source
	log    *slog.Logger
	// turn is held by the reader that uses the fields below.
	turn chan struct{}
	// records holds every record after start, up to end.
	records    []Record
	start, end feed.Position
	// followed reports whether a follower has read.
	followed bool
	// more reports that there may be records behind end already, as of read.
	more bool
	read time.Time
	// current is when the end was last known, in Unix nanoseconds; 0 without a follower.
	current atomic.Int64
}

// NewTail returns the tail of a feed; the caller has to start Run.
func NewTail(s Source, log *slog.Logger) *Tail {
	return &Tail{source: s, log: log, turn: make(chan struct{}, 1)}
}

// Run reads the end of the feed until ctx ends, once it has a follower. It continues after every failure.
func (t *Tail) Run(ctx context.Context) error {
	return lifecycle.Repeat{Every: every, Do: t.round, Log: t.log, Name: "billed calls"}.Run(ctx)
}

func (t *Tail) round(ctx context.Context) error {
	for range pages {
		more, err := t.extend(ctx)
		if err != nil || !more {
			return err
		}
	}
	return nil
}

// extend reads a page, and reports whether there may be more.
func (t *Tail) extend(ctx context.Context) (more bool, err error) {
	if err := t.take(ctx); err != nil {
		return false, err
	}
	defer t.release()
	if !t.followed {
		return false, nil
	}
	err = t.readOn(ctx)
	return t.more, err
}

// take waits for the turn.
func (t *Tail) take(ctx context.Context) error {
	select {
	case t.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (t *Tail) release() { <-t.turn }

// readOn appends a page. The caller has the turn.
func (t *Tail) readOn(ctx context.Context) error {
	begun := time.Now()
	page, err := t.source.Read(ctx, Query{After: t.end, Limit: MaxPage})
	if err != nil {
		return fmt.Errorf("read the end of the billed feed: %w", err)
	}
	t.records, t.end, t.more, t.read = append(t.records, page.Records...), page.Next, page.More, begun
	if !page.More {
		t.current.Store(begun.UnixNano())
	}
	if excess := len(t.records) - kept; excess > kept {
		t.start = t.records[excess-1].Position
		t.records = slices.Delete(t.records, 0, excess) // in place: page hands out copies
	}
	return nil
}

// Read implements Source. A page at the end of the feed is at most as old as the interval of Run.
func (t *Tail) Read(ctx context.Context, q Query) (Page, error) {
	if q.After == (feed.Position{}) || !q.Until.IsZero() {
		return t.source.Read(ctx, q)
	}
	if err := t.take(ctx); err != nil {
		return Page{}, err
	}
	if t.followed && q.After.Compare(t.start) < 0 {
		t.release()
		return t.source.Read(ctx, q)
	}
	defer t.release()
	if err := t.reach(ctx, q.After); err != nil {
		return Page{}, err
	}
	page := t.page(q)
	if page.Next == t.end && (t.more || time.Since(t.read) > every) {
		if err := t.readOn(ctx); err != nil {
			return Page{}, err
		}
		page = t.page(q)
	}
	return page, nil
}

// reach reads on to the position of a follower that got ahead of the tail by reading the source directly. For a first
// follower, or one far ahead, the tail starts over at that position. The caller has the turn.
func (t *Tail) reach(ctx context.Context, p feed.Position) error {
	for range ahead {
		if !t.followed || p.Compare(t.end) <= 0 {
			break
		}
		if err := t.readOn(ctx); err != nil {
			return err
		}
	}
	if !t.followed || p.Compare(t.end) > 0 {
		t.followed, t.records, t.start, t.end, t.more, t.read = true, nil, p, p, true, time.Time{}
		t.current.CompareAndSwap(0, time.Now().UnixNano())
	}
	return nil
}

// page answers a query from memory.
func (t *Tail) page(q Query) Page {
	page := Page{Next: t.end, More: t.more}
	first := t.index(q.After)
	if q.Organization == "" {
		page.Records = make([]Record, 0, min(q.Limit, len(t.records)-first))
	}
	for i := first; i < len(t.records); i++ {
		r := &t.records[i]
		if !q.matches(r) {
			continue
		}
		page.Records = append(page.Records, *r)
		if len(page.Records) == q.Limit {
			page.Next, page.More = r.Position, page.More || i+1 < len(t.records)
			break
		}
	}
	return page
}

// index returns the index of the first record behind a position.
func (t *Tail) index(p feed.Position) int {
	i, found := slices.BinarySearchFunc(t.records, p, func(r Record, p feed.Position) int { return r.Position.Compare(p) })
	if found {
		return i + 1
	}
	return i
}

// Waiting returns how many records in memory are behind a position; it reads nothing.
func (t *Tail) Waiting(ctx context.Context, p feed.Position) int {
	if t.take(ctx) != nil {
		return 0
	}
	defer t.release()
	return len(t.records) - t.index(p)
}

// Age returns how long ago the feed was read to its end. It reports false without a follower.
func (t *Tail) Age(now time.Time) (age time.Duration, followed bool) {
	at := t.current.Load()
	if at == 0 {
		return 0, false
	}
	return max(0, now.Sub(time.Unix(0, at))), true
}
