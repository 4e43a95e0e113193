package ledger

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/spool"
)

// Mode says what an answer waits for.
type Mode string

// The modes. Both survive kill -9; a loss of power in ModeAsync costs the rows
// of the moment before it.
const (
	// ModeCommitted: the answer is complete when its row is committed.
	ModeCommitted Mode = "committed"
	// ModeAsync: the answer is complete when its row is in the spool.
	ModeAsync Mode = "async"
)

// Bounds of the writer.
const (
	// maxBatch entries share one transaction.
	maxBatch = 512
	// maxQueue entries wait in memory; further ones on disk alone.
	maxQueue = 4096
	// linger lets a batch grow in ModeAsync, where no caller waits for it.
	linger = 50 * time.Millisecond
	// commitTime is how long answers wait for a transaction; then their rows wait
	// on disk.
	commitTime = 2 * time.Second
	// replayTime bounds one transaction that brings rows from disk.
	replayTime = 10 * time.Second
	// Pauses between tries while the store is away.
	minPause, maxPause = 100 * time.Millisecond, 2 * time.Second
	// handover is how many bytes on disk are few enough to bring them back to
	// memory while commits stand still.
	handover = 128 << 10
)

// errLagging tells a waiting Commit that its row stays on disk for now.
var errLagging = errors.New("the row waits on disk")

// Writer brings entries to the store. Each is written to the spool first, so
// that a process that dies loses none, and to the store in groups: while one
// transaction runs, the entries that arrive wait together for the next. While
// the store is away or too slow the writer lags: entries go to the spool alone,
// synced, and from there to the store in the same order.
//
// It has a queue of its own rather than one of platform/batch: queue and spool hold
// the same entries in one order, and a store that fails ends the wait of every caller
// whose entry is in the queue.
type Writer struct {
	store Store
	spool *spool.Spool
	mode  Mode
	log   *slog.Logger

	// order holds the spool and the queue together: but while the writer lags, the
	// queue is what waits in the spool.
	order   sync.Mutex
	queue   chan waiting
	lagging bool
	lag     chan struct{} // signals Run that lagging was set

	// Room of Run, and of Close behind it, that each group uses again.
	group   []waiting
	entries []Entry

	health health
}

// waiting is an entry and who waits for it.
type waiting struct {
	entry Entry
	// end is the entry's position in the spool; 0: behind it is another one.
	end int64
	// done has room for one error; nil when no caller waits.
	done chan error
}

// NewWriter returns a writer that does nothing until Run. It closes the spool.
func NewWriter(store Store, spool *spool.Spool, mode Mode, log *slog.Logger) *Writer {
	return &Writer{
		store: store, spool: spool, mode: mode, log: log,
		queue: make(chan waiting, maxQueue), lag: make(chan struct{}, 1),
	}
}

// Commit returns when the entry is safe: committed, or on disk where the store
// is away or the mode is ModeAsync. An error means that it is lost but for the
// log. ctx carries ids for the log; its end does not end the wait, which is
// bounded.
func (w *Writer) Commit(ctx context.Context, entry Entry) error {
	p := waiting{entry: entry.cleaned()}
	if w.mode != ModeAsync {
		p.done = make(chan error, 1)
	}
	queued, err := w.put(p)
	switch {
	case err != nil:
		return w.direct(ctx, p.entry, err)
	case !queued:
		return w.sync(ctx, p.entry)
	case w.mode == ModeAsync:
		return nil
	}
	timer := time.NewTimer(commitTime)
	defer timer.Stop()
	select {
	case err = <-p.done:
	case <-timer.C:
		err = errLagging
	}
	if errors.Is(err, errLagging) {
		return w.sync(ctx, p.entry)
	}
	return err
}

// records are room for entries' JSON.
var records = sync.Pool{New: func() any { return new([]byte) }}

// put writes an entry to the spool and, unless the writer lags, to the queue.
func (w *Writer) put(p waiting) (queued bool, err error) {
	record := records.Get().(*[]byte) //nolint:errcheck // The pool holds nothing else.
	defer records.Put(record)
	*record = p.entry.appendRecord((*record)[:0])
	w.order.Lock()
	defer w.order.Unlock()
	if p.end, err = w.spool.Append(*record); err != nil {
		return false, err
	}
	if !w.lagging {
		select {
		case w.queue <- p:
			return true, nil
		default:
			w.fallBehind()
		}
	}
	return false, nil
}

// fallBehind makes the spool the only way. The caller holds order.
func (w *Writer) fallBehind() {
	w.lagging = true
	select {
	case w.lag <- struct{}{}:
	default:
	}
}

// sync keeps an entry on disk until the store is back.
func (w *Writer) sync(ctx context.Context, entry Entry) error {
	if err := w.spool.Sync(); err != nil {
		return w.direct(ctx, entry, err)
	}
	return nil
}

// direct is for a disk that takes nothing: the store, or else the log, the last
// place that has the entry.
func (w *Writer) direct(ctx context.Context, entry Entry, cause error) error {
	w.health.diskBroken(true)
	err := w.append(ctx, []Entry{entry}, commitTime)
	w.health.storeAway(errors.Is(err, ErrAway))
	if err != nil {
		w.lose(ctx, entry, errors.Join(cause, err))
	}
	return err
}

func (w *Writer) lose(ctx context.Context, entry Entry, err error) {
	w.log.ErrorContext(ctx, "ledger_row_lost", "entry", entry, "error", err.Error())
}

// Run writes until ctx ends. It is a part of the service's lifecycle.
func (w *Writer) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-w.queue:
			w.settle(ctx, w.gather(ctx, first))
		case <-w.lag:
			w.catchUp(ctx)
		}
	}
}

// gather returns the first entry with those queued behind it; in ModeAsync, where no
// caller waits, also with those that come within linger.
func (w *Writer) gather(ctx context.Context, first waiting) []waiting {
	if w.mode == ModeAsync && len(w.queue) < maxBatch {
		select {
		case <-ctx.Done():
		case <-time.After(linger):
		}
	}
	w.group = append(w.group[:0], first)
	for len(w.group) < maxBatch {
		select {
		case next := <-w.queue:
			w.group = append(w.group, next)
		default:
			return w.group
		}
	}
	return w.group
}

// settle stores a batch and tells those who wait, or falls behind.
func (w *Writer) settle(ctx context.Context, batch []waiting) {
	defer clear(batch)
	var end int64
	w.entries = w.entries[:0]
	for i := range batch {
		w.entries, end = append(w.entries, batch[i].entry), max(end, batch[i].end)
	}
	refused, err := w.write(ctx, w.entries, commitTime)
	clear(w.entries)
	if err != nil {
		w.order.Lock()
		w.fallBehind()
		w.order.Unlock()
		w.log.ErrorContext(ctx, "the ledger's store is away; rows wait on disk", "error", err.Error())
		w.release(batch)
		return
	}
	w.drop(ctx, end)
	for i, p := range batch {
		if p.done != nil {
			p.done <- refused[i]
		}
	}
}

// release tells all waiting callers that the rows stay on disk.
func (w *Writer) release(batch []waiting) {
	for {
		for _, p := range batch {
			if p.done != nil {
				p.done <- errLagging
			}
		}
		select {
		case next := <-w.queue:
			batch = []waiting{next}
		default:
			return
		}
	}
}

// drop forgets what the store has. A failure costs a repetition at the next
// start, which the store bears.
func (w *Writer) drop(ctx context.Context, end int64) {
	if err := w.spool.Drop(end); err != nil {
		w.log.ErrorContext(ctx, "the spool can't be emptied", "error", err.Error())
	}
}

// write stores entries. Those that the store can never take are in the log and
// in refused, by their place, and cost no other. The error is ErrAway.
func (w *Writer) write(ctx context.Context, entries []Entry, limit time.Duration) (refused map[int]error, err error) {
	err = w.append(ctx, entries, limit)
	if err == nil || errors.Is(err, ErrAway) {
		w.health.storeAway(err != nil)
		return nil, err
	}
	refused = make(map[int]error)
	for i, entry := range entries {
		switch err := w.append(ctx, []Entry{entry}, limit); {
		case errors.Is(err, ErrAway):
			w.health.storeAway(true)
			return nil, err
		case err != nil:
			w.lose(ctx, entry, err)
			refused[i] = err
		}
	}
	w.health.storeAway(false)
	return refused, nil
}

// append outlives ctx by its own bound: a shutdown must not break off a commit. A
// panic is of one of the entries, and costs no other.
func (w *Writer) append(ctx context.Context, entries []Entry, limit time.Duration) (err error) {
	defer panics.Recover(&err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	return w.store.Append(ctx, entries)
}
