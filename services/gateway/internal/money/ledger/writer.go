package ledger

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/callcount"
	"switchyard.dev/services/platform/panics"
	"switchyard.dev/services/platform/spool"
)

// Bounds of the writer.
const (
	// maxBatch is the largest number of entries in one transaction.
	maxBatch = 512
	// maxQueue is the largest number of entries that wait in memory; further ones wait on disk only.
	maxQueue = 4096
	// linger is how long a batch may grow where no caller waits for it, which is everywhere but in ModeCommitted.
	linger = 50 * time.Millisecond
	// commitTime is how long answers wait for a transaction. After it their rows wait on disk.
	commitTime = 2 * time.Second
	// replayTime bounds one transaction that moves rows from disk.
	replayTime = 10 * time.Second
	// Pauses between tries while the store is unavailable.
	minPause, maxPause = 100 * time.Millisecond, 2 * time.Second
	// handover is the number of bytes on disk up to which they are moved back to memory while commits are blocked.
	handover = 128 << 10
)

// errLagging ends a waiting Commit: its row stays on disk for now.
var errLagging = errors.New("the row waits on disk")

// Writer brings entries to the store. Each is written to the spool first, so
// that a process that dies loses none, and to the store in groups: those that
// arrive while one transaction runs, or while a group lingers, wait together for
// the next. While the store is away or too slow the writer lags: entries go to
// the spool alone, synced, and from there to the store in the same order.
//
// It has a queue of its own rather than one of platform/batch: queue and spool hold
// the same entries in one order, and a store that fails ends the wait of every caller
// whose entry is in the queue.
type Writer struct {
	store Store
	spool *spool.Spool
	mode  Mode
	log   *slog.Logger

	// order guards the spool and the queue together: unless the writer lags, the queue holds what waits in the spool.
	order   sync.Mutex
	queue   chan waiting
	lagging bool
	lag     chan struct{} // signals Run that lagging was set
	behind  *batch.Behind // nil in ModeCommitted

	// Buffers that Run, and Close after it, reuse for each group.
	group []waiting
	lines []line

	health health
}

// waiting is a line with the channel of its caller.
type waiting struct {
	line line
	// end is the position behind the line in the spool; 0 if another one was written behind it.
	end int64
	// done has room for one error; nil if no caller waits for the store.
	done chan error
}

// NewWriter returns a writer that does nothing until Run. The writer closes the spool.
func NewWriter(store Store, spool *spool.Spool, mode Mode, log *slog.Logger) *Writer {
	w := &Writer{
		store: store, spool: spool, mode: mode, log: log,
		queue: make(chan waiting, maxQueue), lag: make(chan struct{}, 1),
	}
	if mode != ModeCommitted {
		w.behind = w.newBehind()
	}
	return w
}

// Commit returns when the entry is as safe as the mode promises, or synced to disk if the store is unavailable. An error
// means that the entry is lost, except in the log. ctx carries IDs for the log; its end does not end the wait, which is
// bounded.
func (w *Writer) Commit(ctx context.Context, entry Entry) error {
	p := w.submit(line{Entry: entry.cleaned()})
	return w.wait(ctx, &p)
}

// Record implements callcount.Recorder. The count is in the spool when it returns.
func (w *Writer) Record(ctx context.Context, count callcount.Count) (settled func() error, err error) {
	p := w.submit(line{Count: &count})
	return func() error { return w.wait(ctx, &p) }, nil
}

// pending is a line that was submitted.
type pending struct {
	waiting

	// queued reports whether the line waits in memory, announced is closed when readers know of it.
	queued    bool
	announced <-chan struct{}
	err       error // of the disk
}

// submit writes a line to the spool and has it stored.
func (w *Writer) submit(l line) pending {
	p := pending{waiting: waiting{line: l}}
	if w.mode == ModeCommitted {
		p.done = make(chan error, 1)
	}
	p.queued, p.err = w.put(p.waiting)
	if p.queued && w.behind != nil {
		p.announced = w.behind.Wake()
	}
	return p
}

// wait returns when a line is as safe as the mode promises, see Commit.
func (w *Writer) wait(ctx context.Context, p *pending) error {
	switch {
	case p.err != nil:
		return w.direct(ctx, p.line, p.err)
	case !p.queued:
		return w.sync(ctx, p.line)
	case w.mode == ModeCommitted:
		return w.committed(ctx, p.waiting)
	case w.mode == ModeAsync:
		return nil
	}
	if err := w.sync(ctx, p.line); err != nil {
		return err
	}
	w.awaitAnnounced(p.announced)
	return nil
}

// awaitAnnounced waits until readers know of an entry, at most for commitTime: without that they only see it later.
func (w *Writer) awaitAnnounced(announced <-chan struct{}) {
	select {
	case <-announced:
		return
	default: // needs no timer
	}
	timer := time.NewTimer(commitTime)
	defer timer.Stop()
	select {
	case <-announced:
	case <-timer.C:
	}
}

// committed returns when the entry is in the store, or on disk after commitTime.
func (w *Writer) committed(ctx context.Context, p waiting) error {
	timer := time.NewTimer(commitTime)
	defer timer.Stop()
	err := errLagging
	select {
	case err = <-p.done:
	case <-timer.C:
	}
	if errors.Is(err, errLagging) {
		return w.sync(ctx, p.line)
	}
	return err
}

// put writes an entry to the spool and, unless the writer lags, to the queue.
func (w *Writer) put(p waiting) (queued bool, err error) {
	record, err := p.line.encode()
	if err != nil {
		return false, err
	}
	w.order.Lock()
	defer w.order.Unlock()
	if p.end, err = w.spool.Append(record); err != nil {
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

// fallBehind makes entries go to the spool only. The caller holds order.
func (w *Writer) fallBehind() {
	w.lagging = true
	select {
	case w.lag <- struct{}{}:
	default:
	}
}

// sync keeps a line on disk until the store is available.
func (w *Writer) sync(ctx context.Context, l line) error {
	if err := w.spool.Sync(); err != nil {
		return w.direct(ctx, l, err)
	}
	return nil
}

// direct writes a line when the disk fails: to the store, or else to the log, which is the last place that has it.
func (w *Writer) direct(ctx context.Context, l line, cause error) error {
	w.health.setDiskBroken(true)
	err := w.append(ctx, []line{l}, commitTime)
	w.health.setStoreUnavailable(errors.Is(err, ErrUnavailable))
	if err != nil {
		w.lose(ctx, l, errors.Join(cause, err))
	}
	return err
}

func (w *Writer) lose(ctx context.Context, l line, err error) {
	if l.Count != nil {
		w.log.ErrorContext(ctx, "call_count_lost", "count", *l.Count, "error", err.Error())
		return
	}
	w.log.ErrorContext(ctx, "ledger_row_lost", "entry", l.Entry, "error", err.Error())
}

// Run writes entries until ctx ends. It is a part of the service's lifecycle.
func (w *Writer) Run(ctx context.Context) error {
	queue, woken := w.queue, (<-chan struct{})(nil)
	if w.behind != nil {
		queue, woken = nil, w.behind.Woken()
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case first := <-queue:
			w.settle(ctx, w.gather(first))
		case <-woken:
			w.behind.Rounds(ctx)
		case <-w.lag:
			w.catchUp(ctx)
		}
	}
}

// gather returns the first entry with those queued behind it.
func (w *Writer) gather(first waiting) []waiting {
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

// settle stores a batch and notifies the waiting callers, or falls behind.
func (w *Writer) settle(ctx context.Context, batch []waiting) {
	defer clear(batch)
	var end int64
	w.lines = w.lines[:0]
	for i := range batch {
		w.lines, end = append(w.lines, batch[i].line), max(end, batch[i].end)
	}
	refused, err := w.write(ctx, w.lines, commitTime)
	clear(w.lines)
	if err != nil {
		w.order.Lock()
		w.fallBehind()
		w.order.Unlock()
		w.log.ErrorContext(ctx, "the ledger's store is unavailable; rows wait on disk", "error", err.Error())
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

// release notifies all waiting callers that their rows stay on disk.
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

// drop removes from the spool what the store has. After a failure the rows are stored again at the next start, which
// changes nothing.
func (w *Writer) drop(ctx context.Context, end int64) {
	if err := w.spool.Drop(end); err != nil {
		w.log.ErrorContext(ctx, "the spool can't be emptied", "error", err.Error())
	}
}

// write stores lines. Those that the store refuses are logged and reported in refused, by their index; the others are
// stored. The error is ErrUnavailable.
func (w *Writer) write(ctx context.Context, lines []line, limit time.Duration) (refused map[int]error, err error) {
	err = w.append(ctx, lines, limit)
	if err == nil || errors.Is(err, ErrUnavailable) {
		w.health.setStoreUnavailable(err != nil)
		return nil, err
	}
	refused = make(map[int]error)
	for i, l := range lines {
		switch err := w.append(ctx, []line{l}, limit); {
		case errors.Is(err, ErrUnavailable):
			w.health.setStoreUnavailable(true)
			return nil, err
		case err != nil:
			w.lose(ctx, l, err)
			refused[i] = err
		}
	}
	w.health.setStoreUnavailable(false)
	return refused, nil
}

// append stores lines together. It continues after ctx has ended, for at most limit: a shutdown must not interrupt a
// commit. A panic is caused by one of the lines, and becomes an error.
func (w *Writer) append(ctx context.Context, lines []line, limit time.Duration) (err error) {
	defer panics.Recover(&err)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), limit)
	defer cancel()
	entries, counts := split(lines)
	if len(entries) > 0 || len(counts) == 0 {
		if err := w.store.Append(ctx, entries); err != nil {
			return err
		}
	}
	if len(counts) == 0 {
		return nil
	}
	return w.store.Count(ctx, counts)
}
