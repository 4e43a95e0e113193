package ledger

import (
	"context"
	"encoding/json"
	"time"

	"switchyard.dev/services/platform/spool"
)

// adoptEvery is how often the rows of ended processes are looked for.
const adoptEvery = time.Minute

// catchUp brings rows from disk to the store, in order, until there are so few
// that memory takes over again, or until ctx ends.
func (w *Writer) catchUp(ctx context.Context) {
	w.flush(ctx)
	if !w.isLagging() {
		return // An older signal.
	}
	for pause := minPause; ctx.Err() == nil; {
		if rest, level := w.level(ctx); level {
			w.log.InfoContext(ctx, "the ledger's store has what waited on disk")
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

// flush settles what is in memory.
func (w *Writer) flush(ctx context.Context) {
	for {
		select {
		case first := <-w.queue:
			w.settle(ctx, w.gather(ctx, first))
		default:
			return
		}
	}
}

// level ends the lag when little enough waits, and gives what does. Commits
// stand still meanwhile, so that what they write next is behind it. A store
// that is away stays so until a row has reached it.
func (w *Writer) level(ctx context.Context) (rest []waiting, level bool) {
	if w.health.away.Load() || w.spool.Waiting() > handover {
		return nil, false
	}
	w.order.Lock()
	defer w.order.Unlock()
	batch, err := w.spool.Read(handover)
	if err != nil || batch.More {
		return nil, false
	}
	w.lagging = false
	for _, entry := range w.decode(ctx, batch) {
		rest = append(rest, waiting{entry: entry})
	}
	if len(rest) == 0 {
		w.drop(ctx, batch.End)
		return nil, true
	}
	rest[len(rest)-1].end = batch.End
	return rest, true
}

// replay brings one batch from a spool to the store, and tells how many rows.
func (w *Writer) replay(ctx context.Context, from *spool.Spool) (int, error) {
	batch, err := from.Read(maxBatch)
	if err != nil {
		w.log.ErrorContext(ctx, "the spool is unreadable", "error", err.Error())
		return 0, err
	}
	// Without an entry too: it reports whether the store is back.
	entries := w.decode(ctx, batch)
	if _, err := w.write(ctx, entries, replayTime); err != nil {
		return 0, err
	}
	return len(entries), from.Drop(batch.End)
}

// decode reads a batch's entries. What is whole and no entry was not written by
// this service, and can only be passed over.
func (w *Writer) decode(ctx context.Context, batch spool.Batch) []Entry {
	if batch.Damaged > 0 {
		w.log.ErrorContext(ctx, "ledger rows on disk are damaged; their file is kept aside", "lines", batch.Damaged)
	}
	entries := make([]Entry, 0, len(batch.Records))
	for _, record := range batch.Records {
		var entry Entry
		if err := json.Unmarshal(record, &entry); err != nil {
			w.log.ErrorContext(ctx, "a record on disk is no ledger row", "error", err.Error())
			continue
		}
		entries = append(entries, entry)
	}
	return entries
}

// Adopt brings the rows that ended processes have left on disk to the store,
// until ctx ends. It is a part of the service's lifecycle.
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

// adopt takes each orphan as far as the store lets it. What is left stays for
// the next time.
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

// Close brings what still waits to the store when Run has ended, within ctx,
// and closes the spool. What the store doesn't take stays on disk for the next
// process.
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
