package batch

import (
	"context"
	"log/slog"
	"sync"
	"time"
)

// announceTime bounds an announcement.
const announceTime = 500 * time.Millisecond

// Behind stores items that were acknowledged already, in rounds, without a reader missing one: from before an item is
// acknowledged until it is stored, an announcement tells readers to wait. The items are in a buffer of the caller, such
// as a write-ahead log.
type Behind struct {
	o    BehindOptions
	wake chan struct{}

	mu sync.Mutex
	// announced is closed, and open is set, while items that come into the buffer are announced.
	announced chan struct{}
	open      bool
}

// BehindOptions of a Behind. All are required.
type BehindOptions struct {
	// Linger is how long a round waits for further items, unless Full reports that there are enough.
	Linger time.Duration
	Full   func() bool
	// Announce tells readers that items will be stored, until withdraw.
	Announce func(ctx context.Context) (withdraw func(), err error)
	// Store stores all items that are in the buffer when it is called. It leaves those that it can't store.
	Store func(ctx context.Context)
	// Idle reports whether there is nothing to store: the buffer is empty, or its items can't be stored at present.
	Idle func() bool
	Log  *slog.Logger
}

// NewBehind returns a Behind that stores nothing until Rounds is called.
func NewBehind(o BehindOptions) *Behind {
	return &Behind{o: o, wake: make(chan struct{}, 1), announced: make(chan struct{})}
}

// Wake is called for each item after it came into the buffer. The item may be acknowledged when the result is closed.
func (b *Behind) Wake() (announced <-chan struct{}) {
	b.mu.Lock()
	defer b.mu.Unlock()
	select {
	case b.wake <- struct{}{}:
	default:
	}
	return b.announced
}

// Woken signals that Rounds is to be called.
func (b *Behind) Woken() <-chan struct{} { return b.wake }

// Rounds stores items until the buffer is idle. Once ctx has ended no round waits for further items. One goroutine at a
// time may call it, and again after a panic of Store.
//
// An announcement begins before a round takes items from the buffer and ends with the next round, so it covers whatever
// comes between the two.
func (b *Behind) Rounds(ctx context.Context) {
	withdraw := b.announce(ctx)
	defer func() { withdraw() }()
	b.admit()
	for idle := false; !idle; idle = b.idle() {
		b.linger(ctx)
		next := b.announce(ctx)
		b.o.Store(ctx)
		withdraw()
		withdraw = next
	}
}

// admit lets the senders of items go on.
func (b *Behind) admit() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.open {
		close(b.announced)
		b.open = true
	}
}

// announce announces items. Without an announcement, a reader may miss items for the time of a round; a database that
// can't be reached for one can't store items either.
func (b *Behind) announce(ctx context.Context) (withdraw func()) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), announceTime)
	defer cancel()
	withdraw, err := b.o.Announce(ctx)
	if err != nil {
		b.o.Log.WarnContext(ctx, "writes are not announced to readers", "error", err.Error())
		return func() {}
	}
	return withdraw
}

func (b *Behind) linger(ctx context.Context) {
	if b.o.Full() {
		return
	}
	timer := time.NewTimer(b.o.Linger)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// idle reports whether the rounds can end. Items that come from then on are announced by the next call of Rounds.
func (b *Behind) idle() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.o.Idle() {
		return false
	}
	b.announced, b.open = make(chan struct{}), false
	return true
}
