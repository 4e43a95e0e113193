package inbox

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/apierr"
)

// Times and bounds of streams.
const (
	// pollEvery is how late a change may come when nobody rang for it.
	pollEvery = 2 * time.Second
	// pollBatch bounds the inboxes of one look.
	pollBatch = 5000
	// pageSize is how many changes are read at a time, which is all that a stream
	// holds in memory.
	pageSize = 100
)

// ErrTooMany says that this replica follows as many inboxes as it may.
var ErrTooMany = apierr.Unavailable("too many streams are open here; try again", nil)

// Feed follows inboxes for the streams of this replica. A change is committed
// first and rung for then: a ring only says that there is something to read, so
// one that is lost costs time and nothing else.
type Feed struct {
	events Events
	log    *slog.Logger
	most   int

	drained   chan struct{}
	drainOnce sync.Once

	mu       sync.Mutex
	followed map[Address]*followed
	streams  int
}

// followed is an inbox that streams read.
type followed struct {
	bells map[chan struct{}]struct{}
	// seq is where the last look found it.
	seq int64
}

// NewFeed returns a feed of at most that many streams.
func NewFeed(events Events, most int, log *slog.Logger) *Feed {
	return &Feed{events: events, log: log, most: most, drained: make(chan struct{}), followed: map[Address]*followed{}}
}

// Ring tells the streams of an inbox that it has changed.
func (f *Feed) Ring(at Address) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if inbox, ok := f.followed[at]; ok {
		inbox.ring()
	}
}

func (i *followed) ring() {
	for bell := range i.bells {
		select {
		case bell <- struct{}{}:
		default: // It has been rung for already.
		}
	}
}

// listen gives a bell that rings when an inbox changes.
func (f *Feed) listen(at Address) (bell chan struct{}, leave func(), err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.streams >= f.most {
		return nil, nil, ErrTooMany
	}
	f.streams++
	inbox, ok := f.followed[at]
	if !ok {
		inbox = &followed{bells: make(map[chan struct{}]struct{}, 1)}
		f.followed[at] = inbox
	}
	bell = make(chan struct{}, 1)
	inbox.bells[bell] = struct{}{}
	return bell, func() { f.forget(at, bell) }, nil
}

func (f *Feed) forget(at Address, bell chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.streams--
	inbox := f.followed[at]
	if delete(inbox.bells, bell); len(inbox.bells) == 0 {
		delete(f.followed, at)
	}
}

// Streams is how many are open.
func (f *Feed) Streams() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.streams
}

// Drain ends all streams; their readers resume at another replica.
func (f *Feed) Drain() { f.drainOnce.Do(func() { close(f.drained) }) }

// Run looks after rings that were lost, until ctx ends: an inbox that stands
// elsewhere than at the last look is rung for.
func (f *Feed) Run(ctx context.Context) error {
	ticker := time.NewTicker(pollEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			f.look(ctx)
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
			inbox.ring()
		}
	}
}
