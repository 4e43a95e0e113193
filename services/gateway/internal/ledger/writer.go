package ledger

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"
)

// Bounds of the writer.
const (
	// maxBatch entries share one transaction.
	maxBatch = 64
	// maxQueue entries wait for the writer. More completions can't be in flight
	// between their answers and their rows without the ledger being refused.
	maxQueue = 4096
	// commitWait is how long an answer waits for its row.
	commitWait = 2 * time.Second
	// appendTime bounds one transaction.
	appendTime = 5 * time.Second
	// Pauses between tries while the store is away.
	minPause, maxPause = 100 * time.Millisecond, 5 * time.Second
)

// ErrPending says that an entry was not committed in time. It is kept in memory
// and tried again for as long as the process lives.
var ErrPending = errors.New("ledger: the entry is not committed yet")

// Writer commits entries in groups: while one transaction runs, the entries
// that arrive wait together for the next. Only Run writes, so that there is one
// transaction at a time.
type Writer struct {
	store Store
	log   *slog.Logger
	queue chan waiting
	away  atomic.Bool
}

// waiting is an entry and who waits for it; done is buffered.
type waiting struct {
	entry Entry
	done  chan error
}

// NewWriter returns a writer that does nothing until Run.
func NewWriter(store Store, log *slog.Logger) *Writer {
	return &Writer{store: store, log: log, queue: make(chan waiting, maxQueue)}
}

// Ready is nil when entries can be taken. While the store is away, or the queue
// is nearly full, completions are refused before a provider is called: nothing
// that can't be billed is served.
func (w *Writer) Ready(context.Context) error {
	switch {
	case w.away.Load():
		return ErrAway
	case len(w.queue) > maxQueue/2:
		return fmt.Errorf("ledger: %d entries are waiting", len(w.queue))
	}
	return nil
}

// Commit returns when the entry is stored. It waits for two seconds at the
// most; ErrPending then means that the row will follow, and that the log has it.
// ctx carries ids for the log; its end does not end the wait.
func (w *Writer) Commit(ctx context.Context, entry Entry) error {
	p := waiting{entry, make(chan error, 1)}
	timer := time.NewTimer(commitWait)
	defer timer.Stop()
	select {
	case w.queue <- p:
	default:
		w.log.ErrorContext(ctx, "ledger_row_lost", "entry", entry, "error", "the queue is full")
		return errors.New("ledger: the queue is full")
	}
	select {
	case err := <-p.done:
		return err
	case <-timer.C:
		w.log.WarnContext(ctx, "ledger_row_pending", "entry", entry)
		return ErrPending
	}
}

// Run writes until ctx ends. It is a part of the service's lifecycle.
func (w *Writer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-w.queue:
			w.settle(ctx, w.gather(first))
		}
	}
}

// Close writes what still waits when Run has ended, within ctx; what can't be
// written is in the log.
func (w *Writer) Close(ctx context.Context) error {
	for {
		select {
		case first := <-w.queue:
			w.settle(ctx, w.gather(first))
		default:
			return nil
		}
	}
}

// gather takes what waits beside the first, without waiting for more.
func (w *Writer) gather(first waiting) []waiting {
	batch := []waiting{first}
	for len(batch) < maxBatch {
		select {
		case next := <-w.queue:
			batch = append(batch, next)
		default:
			return batch
		}
	}
	return batch
}

// settle stores a batch, however long the store is away, and tells those who
// wait. At the end of ctx it tries once more, then gives the batch to the log.
func (w *Writer) settle(ctx context.Context, batch []waiting) {
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		err := w.append(ctx, batch)
		switch {
		case err == nil:
			w.away.Store(false)
			answer(batch, nil)
			return
		case !errors.Is(err, ErrAway):
			w.separate(ctx, batch, err)
			return
		case ctx.Err() != nil:
			w.lose(ctx, batch, err)
			return
		}
		if !w.away.Swap(true) {
			w.log.ErrorContext(ctx, "the ledger's store is away; completions are refused until it is back", "error", err.Error())
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

// append outlives ctx by its own bound: a shutdown must not break off a commit.
func (w *Writer) append(ctx context.Context, batch []waiting) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), appendTime)
	defer cancel()
	entries := make([]Entry, len(batch))
	for i, p := range batch {
		entries[i] = p.entry
	}
	return w.store.Append(ctx, entries)
}

// separate finds the entry that the store refuses, so that it costs no other.
func (w *Writer) separate(ctx context.Context, batch []waiting, err error) {
	if len(batch) == 1 {
		w.lose(ctx, batch, err)
		return
	}
	for i := range batch {
		w.settle(ctx, batch[i:i+1])
	}
}

// lose leaves entries to the log, the last place that has them.
func (w *Writer) lose(ctx context.Context, batch []waiting, err error) {
	for _, p := range batch {
		w.log.ErrorContext(ctx, "ledger_row_lost", "entry", p.entry, "error", err.Error())
	}
	answer(batch, err)
}

func answer(batch []waiting, err error) {
	for _, p := range batch {
		p.done <- err
	}
}
