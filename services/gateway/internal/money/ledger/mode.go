package ledger

import (
	"context"

	"switchyard.dev/services/platform/batch"
)

// Mode is what an answer waits for.
type Mode string

// The modes. Rows of all survive kill -9.
const (
	// ModeSynced: the answer is complete when its row is synced to the spool's disk. It is the mode for a spool whose
	// volume outlives the machine's process: rows then survive a loss of power, and no answer waits for the store.
	ModeSynced Mode = "synced"
	// ModeCommitted: the answer is complete when its row is committed to the store.
	ModeCommitted Mode = "committed"
	// ModeAsync: the answer is complete when its row is in the spool. A loss of power costs the rows of the moment before
	// it, and readers may not see the rows of that moment yet.
	ModeAsync Mode = "async"
)

// newBehind returns what stores the queued entries where no caller waits for it.
func (w *Writer) newBehind() *batch.Behind {
	return batch.NewBehind(batch.BehindOptions{
		Linger: linger, Announce: w.store.Announce, Store: w.settleQueued, Log: w.log,
		Full: func() bool { return len(w.queue) >= maxBatch },
		Idle: func() bool { return len(w.queue) == 0 },
	})
}

// settleQueued stores all entries that are queued now.
func (w *Writer) settleQueued(ctx context.Context) {
	for queued := len(w.queue); queued > 0 && len(w.queue) > 0; {
		group := w.gather(<-w.queue)
		queued -= len(group)
		w.settle(ctx, group)
	}
}
