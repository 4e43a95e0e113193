package ledger

import (
	"context"
	"time"

	"switchyard.dev/services/platform/spool"
)

// adoptEvery is how often the spools of ended processes are looked for.
const adoptEvery = time.Minute

// catchUp moves rows from disk to the store, in order, until so few are left that the queue in memory takes over again,
// or until ctx ends.
func (w *Writer) catchUp(ctx context.Context) {
	w.flush(ctx)
	if !w.isLagging() {
		return // An older signal.
	}
	for pause := minPause; ctx.Err() == nil; {
		if rest, level := w.level(ctx); level {
			w.log.InfoContext(ctx, "the rows from disk are in the ledger's store")
			if len(rest) > 0 {
				w.settle(ctx, rest)
			}
			return
		}
		if _, err := w.replay(ctx, w.spool); err == nil {
			pause = minPause
			continue
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, maxPause)
	}
}

func (w *Writer) isLagging() bool {
	w.order.Lock()
	defer w.order.Unlock()
	return w.lagging
}

// flush settles the entries in memory.
func (w *Writer) flush(ctx context.Context) {
	for {
		select {
		case first := <-w.queue:
			w.settle(ctx, w.gather(first))
		default:
			return
		}
	}
}

// level ends the lag if few enough bytes are on disk, and returns their rows. Commits are blocked meanwhile, so that
// their entries come after these. A store that was unavailable counts as such until a row has reached it.
func (w *Writer) level(ctx context.Context) (rest []waiting, level bool) {
	if w.health.unavailable.Load() || w.spool.Waiting() > handover {
		return nil, false
	}
	w.order.Lock()
	defer w.order.Unlock()
	batch, err := w.spool.Read(handover)
	if err != nil || batch.More {
		return nil, false
	}
	w.lagging = false
	for _, l := range w.decode(ctx, batch) {
		rest = append(rest, waiting{line: l})
	}
	if len(rest) == 0 {
		w.drop(ctx, batch.End)
		return nil, true
	}
	rest[len(rest)-1].end = batch.End
	return rest, true
}

// replay moves one batch from a spool to the store, and returns the number of rows.
func (w *Writer) replay(ctx context.Context, from *spool.Spool) (int, error) {
	batch, err := from.Read(maxBatch)
	if err != nil {
		w.log.ErrorContext(ctx, "the spool is unreadable", "error", err.Error())
		return 0, err
	}
	// Also without a line: the write checks whether the store is available again.
	lines := w.decode(ctx, batch)
	if _, err := w.write(ctx, lines, replayTime); err != nil {
		return 0, err
	}
	return len(lines), from.Drop(batch.End)
}

// decode returns a batch's lines. An intact record that is none was not written by this service, and is skipped.
func (w *Writer) decode(ctx context.Context, batch spool.Batch) []line {
	if batch.Damaged > 0 {
		w.log.ErrorContext(ctx, "ledger rows on disk are damaged; their file is kept", "lines", batch.Damaged)
	}
	lines := make([]line, 0, len(batch.Records))
	for _, record := range batch.Records {
		l, err := decodeLine(record)
		if err != nil {
			w.log.ErrorContext(ctx, "a record on disk is not a ledger row", "error", err.Error())
			continue
		}
		lines = append(lines, l)
	}
	return lines
}

// Adopt moves the rows that ended processes left on disk to the store, until ctx ends. It is a part of the service's
// lifecycle.
func (w *Writer) Adopt(ctx context.Context) error {
	ticker := time.NewTicker(adoptEvery)
	defer ticker.Stop()
	for {
		w.adopt(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// adopt replays each orphaned spool as far as the store accepts it. The rest stays for the next time.
func (w *Writer) adopt(ctx context.Context) {
	orphans, err := w.spool.Orphans()
	if err != nil {
		w.log.ErrorContext(ctx, "spools of ended processes are unreadable", "error", err.Error())
	}
	for _, orphan := range orphans {
		rows, err := 0, error(nil)
		for err == nil && !orphan.Empty() && ctx.Err() == nil {
			var n int
			n, err = w.replay(ctx, orphan)
			rows += n
		}
		if err != nil {
			w.log.WarnContext(ctx, "rows of an ended process wait for the ledger's store", "error", err.Error())
		} else if rows > 0 {
			w.log.InfoContext(ctx, "rows of an ended process recovered", "count", rows)
		}
		if err := orphan.Close(); err != nil {
			w.log.ErrorContext(ctx, "a spool can't be closed", "error", err.Error())
		}
	}
}

// Close moves the remaining rows to the store after Run has ended, within ctx, and closes the spool. Rows that the
// store doesn't take stay on disk for the next process.
func (w *Writer) Close(ctx context.Context) error {
	w.flush(ctx)
	for !w.spool.Empty() && ctx.Err() == nil {
		if _, err := w.replay(ctx, w.spool); err != nil {
			w.log.WarnContext(ctx, "ledger rows stay on disk", "bytes", w.spool.Waiting(), "error", err.Error())
			break
		}
	}
	return w.spool.Close()
}
