package meter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/platform/batch"
	"switchyard.dev/services/platform/spool"
)

const (
	// replayEvery is the interval at which the database is tried while it is away.
	replayEvery = 250 * time.Millisecond
	// adoptEvery is the interval at which files of ended processes are looked for.
	adoptEvery = time.Minute
)

// newBehind returns what sends batches on disk to the database in ModeSynced.
func (m *Meter) newBehind() *batch.Behind {
	return batch.NewBehind(batch.BehindOptions{
		Linger: behind, Announce: m.store.Announce, Log: m.log,
		Full:  func() bool { return false },
		Store: m.send,
		Idle:  func() bool { return m.spool.Empty() || m.away.Load() },
	})
}

// awaitAnnounced waits until readers know of the batches on disk, unless the database is away.
func (m *Meter) awaitAnnounced(announced <-chan struct{}) {
	if m.away.Load() {
		return
	}
	select {
	case <-announced:
		return
	default: // needs no timer
	}
	timer := time.NewTimer(applyTime)
	defer timer.Stop()
	select {
	case <-announced:
	case <-timer.C: // Readers see the batch a moment later.
	}
}

// Replay sends this process's batches on disk to the database until ctx ends.
func (m *Meter) Replay(ctx context.Context) error {
	replay := time.NewTicker(replayEvery)
	defer replay.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-m.behind.Woken():
			if !m.away.Load() {
				m.behind.Rounds(ctx)
			}
		case <-replay.C:
			if !m.spool.Empty() {
				m.send(ctx)
			}
			if m.broken.Load() && m.spool.Probe() == nil {
				m.broken.Store(false)
				m.log.InfoContext(ctx, "the spool's disk works again")
			}
		}
	}
}

// send sends this process's batches on disk to the database.
func (m *Meter) send(ctx context.Context) {
	n, err := m.replay(context.WithoutCancel(ctx), m.spool)
	switch away := err != nil; {
	case m.away.Swap(away) == away:
	case away:
		m.log.WarnContext(ctx, "counts wait on disk for the database", "error", err.Error())
	default:
		m.log.InfoContext(ctx, "counts on disk were sent to the database", "batches", n)
	}
}

// replay applies the batches of a spool in order until none is left or the database fails, and returns how many it
// applied.
func (m *Meter) replay(ctx context.Context, waiting *spool.Spool) (n int, err error) {
	for !waiting.Empty() {
		next, err := waiting.Read(together)
		if err != nil {
			m.log.ErrorContext(ctx, "spool unreadable", "error", err.Error())
			return n, err
		}
		if next.Damaged > 0 {
			m.log.ErrorContext(ctx, "counts on disk are damaged; the file is kept aside", "lines", next.Damaged)
		}
		batches := m.decode(ctx, next.Records)
		if err := m.applyAll(ctx, batches); err != nil {
			return n, err
		}
		n += len(batches)
		if err := waiting.Drop(next.End); err != nil {
			return n, fmt.Errorf("drop batch: %w", err)
		}
	}
	return n, nil
}

// decode returns the batches of records. An intact record that is not a batch was not written by this service; it is
// skipped.
func (m *Meter) decode(ctx context.Context, records [][]byte) []Batch {
	batches := make([]Batch, 0, len(records))
	for _, record := range records {
		var batch Batch
		if err := json.Unmarshal(record, &batch); err != nil {
			m.log.ErrorContext(ctx, "a record on disk is not a batch of counts; it is skipped", "error", err.Error())
			continue
		}
		if batch.First == 0 {
			batch.First = batch.Last
		}
		batches = append(batches, batch)
	}
	return batches
}

// applyAll applies batches together where they are of one writer and none was applied before, otherwise one by one.
func (m *Meter) applyAll(ctx context.Context, batches []Batch) error {
	if whole, ok := merge(batches); ok {
		applied, err := m.tryApply(ctx, whole)
		if applied || err != nil {
			return err
		}
	}
	for _, batch := range batches {
		if err := m.apply(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

// merge returns one batch with the counts of all. It reports false for batches of several writers, and for fewer than
// two.
func merge(batches []Batch) (whole Batch, ok bool) {
	if len(batches) < 2 {
		return Batch{}, false
	}
	whole = Batch{Writer: batches[0].Writer, First: batches[0].First, Last: batches[0].Last}
	totals := make(map[Counter]int64)
	for _, batch := range batches {
		if batch.Writer != whole.Writer || batch.First < whole.First {
			return Batch{}, false
		}
		whole.Last = max(whole.Last, batch.Last)
		for _, count := range batch.Counts {
			totals[count.Counter] += count.Count
		}
	}
	whole.Counts = sorted(totals)
	return whole, true
}

// Adopt sends the batches of ended processes to the database until ctx ends.
func (m *Meter) Adopt(ctx context.Context) error {
	ticker := time.NewTicker(adoptEvery)
	defer ticker.Stop()
	for {
		m.adopt(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
	}
}

// adopt replays the files of ended processes. Files that fail are tried again later.
func (m *Meter) adopt(ctx context.Context) {
	orphans, err := m.spool.Orphans()
	if err != nil {
		m.log.ErrorContext(ctx, "spool folder unreadable", "error", err.Error())
		return
	}
	for _, orphan := range orphans {
		n, err := m.replay(ctx, orphan)
		if err != nil {
			m.log.WarnContext(ctx, "counts of an ended process wait for the database", "error", err.Error())
		} else if n > 0 {
			m.log.InfoContext(ctx, "counts of an ended process recovered", "batches", n)
		}
		if err := orphan.Close(); err != nil {
			m.log.ErrorContext(ctx, "spool file not closed", "error", err.Error())
		}
	}
}

// Close sends what is on disk to the database after the loops have ended, within ctx, and closes the spool. Batches that
// the database doesn't take stay for the next process.
func (m *Meter) Close(ctx context.Context) error {
	if _, err := m.replay(ctx, m.spool); err != nil {
		m.log.WarnContext(ctx, "counts stay on disk", "bytes", m.spool.Waiting(), "error", err.Error())
	}
	return m.spool.Close()
}
