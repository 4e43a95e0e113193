package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// probeEvery is how often a disk and a store that both failed are tried.
	probeEvery = time.Second
	probeTime  = 500 * time.Millisecond
)

// health is what the last writes say of the store and of the disk.
type health struct {
	away, broken atomic.Bool
	probed       atomic.Int64 // Unix nanoseconds
}

func (h *health) storeAway(away bool) {
	if h.away.Load() != away {
		h.away.Store(away)
	}
}

func (h *health) diskBroken(broken bool) { h.broken.Store(broken) }

// due is true for one caller in each probeEvery.
func (h *health) due(now time.Time) bool {
	last := h.probed.Load()
	return now.UnixNano()-last >= int64(probeEvery) && h.probed.CompareAndSwap(last, now.UnixNano())
}

// Ready is nil when an entry can be taken. When the spool is full, or its disk
// takes nothing and the store is away too, completions are refused before a
// provider is called: nothing that can't be billed is served.
func (w *Writer) Ready(ctx context.Context) error {
	if w.spool.Full() {
		return fmt.Errorf("%d bytes of ledger rows wait on disk", w.spool.Waiting())
	}
	if !w.health.broken.Load() {
		return nil
	}
	if w.health.due(time.Now()) {
		w.probe(ctx)
	}
	if w.health.broken.Load() && w.health.away.Load() {
		return fmt.Errorf("the spool's disk takes no row: %w", ErrAway)
	}
	return nil
}

// probe asks the disk, and the store by a transaction without entries.
func (w *Writer) probe(ctx context.Context) {
	w.health.diskBroken(w.spool.Probe() != nil)
	if w.health.away.Load() {
		w.health.storeAway(errors.Is(w.append(ctx, nil, probeTime), ErrAway))
	}
}

// Waiting is how many bytes of rows are on disk and not in the store.
func (w *Writer) Waiting() int64 { return w.spool.Waiting() }
