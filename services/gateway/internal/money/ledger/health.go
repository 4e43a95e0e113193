package ledger

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

const (
	// probeEvery is how often a failed disk and store are tried, and probeTime bounds a try of the store.
	probeEvery = time.Second
	probeTime  = 500 * time.Millisecond
)

// health records whether the last writes reached the store and the disk.
type health struct {
	unavailable, broken atomic.Bool
	probed              atomic.Int64 // in Unix nanoseconds
}

func (h *health) setStoreUnavailable(unavailable bool) {
	if h.unavailable.Load() != unavailable {
		h.unavailable.Store(unavailable)
	}
}

func (h *health) setDiskBroken(broken bool) { h.broken.Store(broken) }

// due reports whether a probe is due. It returns true to one caller in each probeEvery.
func (h *health) due(now time.Time) bool {
	last := h.probed.Load()
	return now.UnixNano()-last >= int64(probeEvery) && h.probed.CompareAndSwap(last, now.UnixNano())
}

// Ready returns nil if an entry can be recorded. It returns an error when the spool is full, or when its disk and the
// store have both failed. Completions are then refused before a provider is called, so that everything that is served
// can be billed.
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
	if w.health.broken.Load() && w.health.unavailable.Load() {
		return fmt.Errorf("the spool's disk fails: %w", ErrUnavailable)
	}
	return nil
}

// probe tries the disk, and the store with a transaction without entries.
func (w *Writer) probe(ctx context.Context) {
	w.health.setDiskBroken(w.spool.Probe() != nil)
	if w.health.unavailable.Load() {
		w.health.setStoreUnavailable(errors.Is(w.append(ctx, nil, probeTime), ErrUnavailable))
	}
}

// Mode returns what an answer waits for.
func (w *Writer) Mode() Mode { return w.mode }

// Waiting returns the number of bytes of rows that are on disk and not in the store.
func (w *Writer) Waiting() int64 { return w.spool.Waiting() }
