package meter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"switchyard.dev/services/platform/spool"
)

const (
	// replayEvery is the interval at which the database is tried while batches wait on disk.
	replayEvery = 250 * time.Millisecond
	// adoptEvery is the interval at which files of ended processes are looked for.
	adoptEvery = time.Minute
)

// Replay sends the batches on disk to the database until ctx ends: this process's own, and those of ended processes.
func (m *Meter) Replay(ctx context.Context) error {
	m.adopt(ctx)
	replay, adopt := time.NewTicker(replayEvery), time.NewTicker(adoptEvery)
	defer replay.Stop()
	defer adopt.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-adopt.C:
			m.adopt(ctx)
			if !m.spool.Empty() {
				m.log.WarnContext(ctx, "counts wait on disk for the database")
			}
		case <-replay.C:
			if m.spool.Empty() {
				continue
			}
			if n, err := m.replay(ctx, m.spool); err == nil {
				m.log.InfoContext(ctx, "counts on disk were sent to the database", "batches", n)
			}
		}
	}
}

// replay applies the batches of a spool in order until none is left or one fails, and returns how many it applied.
func (m *Meter) replay(ctx context.Context, waiting *spool.Spool) (n int, err error) {
	for !waiting.Empty() {
		next, err := waiting.Read(1)
		if err != nil {
			m.log.ErrorContext(ctx, "spool unreadable", "error", err.Error())
			return n, err
		}
		if next.Damaged > 0 {
			m.log.ErrorContext(ctx, "counts on disk are damaged; the file is kept aside", "lines", next.Damaged)
		}
		for _, record := range next.Records {
			if err := m.applyRecord(ctx, record); err != nil {
				return n, err
			}
			n++
		}
		if err := waiting.Drop(next.End); err != nil {
			return n, fmt.Errorf("drop batch: %w", err)
		}
	}
	return n, nil
}

// applyRecord sends one batch from disk to the database. An intact record that is not a batch was not written by this
// service; it is skipped.
func (m *Meter) applyRecord(ctx context.Context, record []byte) error {
	var batch Batch
	if err := json.Unmarshal(record, &batch); err != nil {
		m.log.ErrorContext(ctx, "a record on disk is not a batch of counts; it is skipped", "error", err.Error())
		return nil
	}
	return m.apply(ctx, batch)
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
